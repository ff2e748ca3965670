package io.ppmr.target.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.CreditFrame;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ImageTraits;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.CreditLedger;
import io.ppmr.target.image.ImageException;
import io.ppmr.target.image.ReceiveSlot;
import io.ppmr.target.image.Staging;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.TargetPath;
import java.io.IOException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Function;
import org.agrona.DirectBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The data path of one migration at the target: a chunk comes into its receive slot, by itself or pulled, is checked,
 * shown to readers, and released at the source.
 *
 * <p>The session's agent owns it and alone calls {@link #onFrame} and {@link #doWork}. The transport's threads report
 * to {@link ChunkReception}, FUSE's threads report reads to {@link AgentInbox}: both leave a mark and wake the agent
 * where it has something to do for it.
 */
public final class Transfer {
    private static final Logger LOG = LoggerFactory.getLogger(Transfer.class);

    private final ControlLink link;
    private final AgentInbox inbox;
    private final SourceReplies answers;
    private final ArrivingImages images;
    private final Staging staging;
    private final CreditLedger ledger;
    private final ChunkReception incoming;
    private final TransferWatch watch;
    private final ReadTimeline timeline = new ReadTimeline();
    private final TargetHops hops;
    private final TargetHops.TransferShare gauges;
    private final AdvertiseFrame advertise = new AdvertiseFrame();
    private final CreditRequestFrame want = new CreditRequestFrame();
    private final CreditFrame credit = new CreditFrame();
    private final FilePrefixFrame prefixFrame = new FilePrefixFrame();
    private final ValueFrame value = new ValueFrame();
    private final AtomicLong headBytes = new AtomicLong();
    private volatile DataMessage.Progress lastProgress = new DataMessage.Progress(0, 0, 0);
    private long frames;
    private boolean failed;

    /**
     * @param bounceBuffers how many of the pool's chunks are bounce buffers
     * @param opens opens the transport's half, which reports to the arrivals that it is given
     * @param onFailure told the first reason, once
     * @param hops where the bytes are counted on their way
     */
    public Transfer(
            TransferSettings settings,
            BufferPool pool,
            int bounceBuffers,
            ControlLink link,
            ArrivingImages.ImagesContext imageSetting,
            Function<Arrivals, TargetPath> opens,
            Consumer<String> onFailure,
            TargetHops hops)
            throws ErrnoException {
        this.link = link;
        this.hops = hops;
        this.gauges = hops.new TransferShare();
        int chunks = pool.geometry().chunkCount();
        inbox = new AgentInbox(link, hops, chunks, onFailure);
        answers = new SourceReplies(link, inbox::fail);
        staging = new Staging(settings.stagingDirectory(), settings.stagingLimitBytes());
        images = new ArrivingImages(imageSetting, staging, inbox);
        // Chunks are kept for readers of streams; a retained image may fill the pool. Of a rank with several streams
        // one
        // is expected: the others are counted when they come.
        ImageTraits traits = imageSetting.traits();
        boolean streamed = traits.readingMode() == ReadingMode.STREAMED
                || traits.completionMarkerName().isPresent();
        int streams = streamed ? imageSetting.ranks().size() : 0;
        ledger = new CreditLedger(pool, bounceBuffers, staging, streams, inbox::uncoveredStreams, answers);
        watch = new TransferWatch(settings.stallLimit(), ledger, images);
        incoming = new ChunkReception(pool, ledger, link, inbox, answers, hops);
        incoming.open(opens);
    }

    public ArrivingImages images() {
        return images;
    }

    /** Returns whether every byte of every rank has come and was checked. */
    public boolean complete() {
        return images.isComplete() && !incoming.isUnderWay() && inbox.failure() == null;
    }

    /** Fails the migration; the first reason counts. Any thread. */
    public void fail(String reason) {
        inbox.fail(reason);
    }

    /** Ends the transfer, for a reason that is no failure of its own. Any thread. */
    public void giveUp(String reason) {
        inbox.giveUp(reason);
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** Takes one hot frame of the source. */
    public void onFrame(FrameType type, DirectBuffer buffer, int offset) throws IOException {
        frames++;
        try {
            switch (type) {
                case ADVERTISE -> onAdvertise(advertise.wrap(buffer, offset));
                case CREDIT_REQUEST -> {
                    want.wrap(buffer, offset);
                    // Chunks that were sent before it have come: their credits are used.
                    incoming.reportArrivals();
                    ledger.requestCredits(images.file(want.file()), want.window(), want.count(), want.flags());
                }
                case CREDIT_RETURN -> {
                    credit.wrap(buffer, offset);
                    ledger.returned(images.file(credit.file()), credit.slot());
                }
                case FILE_PREFIX -> onPrefix(prefixFrame.wrap(buffer, offset));
                case TRUNCATE -> {
                    value.wrap(buffer, offset);
                    images.file(value.file()).truncated(value.value());
                }
                case SYNC -> {
                    int file = value.wrap(buffer, offset).file();
                    answers.sync(file, value.value(), incoming.nextOrder(), incoming.underWay(file));
                }
                case END_OF_FILE -> {
                    ArrivingFile file = images.file(value.wrap(buffer, offset).file());
                    file.end(value.value());
                    ledger.fileEnded(file);
                }
                case END_OF_IMAGE ->
                    images.endRank((int) value.wrap(buffer, offset).value());
                default -> throw new ProtocolException("frame " + type + " is not for a target");
            }
        } catch (ImageException e) {
            fail(e.getMessage());
        }
    }

    /** Takes a change of names. */
    public void onNameChange(NameChange change) throws ProtocolException {
        frames++;
        try {
            if (change instanceof DataMessage.Created created) {
                ArrivingFile file = images.apply(created);
                if (file != null) {
                    ledger.fileCreated(file);
                }
            } else if (change instanceof DataMessage.Renamed renamed) {
                images.apply(renamed);
            } else if (change instanceof DataMessage.Removed removed) {
                images.apply(removed);
            } else if (change instanceof DataMessage.Changed changed) {
                images.apply(changed);
            }
        } catch (ImageException | ErrnoException e) {
            fail("names at the source and here differ: " + e.getMessage());
        }
    }

    /** Takes the source's word that a rail ends. */
    public void onEndRail(DataMessage.EndRail word) throws ProtocolException {
        frames++;
        incoming.endRail(word);
    }

    /**
     * The source is gone: what it was to send does not come. Whether that is a failure is for the migration to say, as
     * a source that rolls back goes, too. On the agent's thread, or where that has ended: it will not run again.
     */
    void sourceGone(String reason) {
        giveUp(reason);
        images.fail(inbox.failure());
    }

    /** Everything that is to be done beside the frames; gives how much was done. */
    public int doWork(long nowNs) throws IOException {
        String failure = inbox.failure();
        if (failure != null && !failed) {
            failed = true;
            images.fail(failure);
            link.sendFromAgent(new DataMessage.TransferFailure(failure));
        }
        int freed = takeFreed();
        boolean stagingFreed = inbox.takeStagingFreed();
        if (inbox.takeReaderWaits() || stagingFreed || freed > 0) {
            ledger.serve();
        }
        inbox.slotIsAwaited(ledger.hasBlockedWriter());
        incoming.start();
        long readBytes = inbox.readBytes();
        if (!failed) {
            String stuck = watch.check(nowNs, arrivedBytes() + readBytes + frames, incoming.isUnderWay());
            if (stuck != null) {
                fail(stuck);
            }
        }
        timeline.sample(nowNs, readBytes);
        gauges.show(incoming.queued(), incoming.inFlight(), staging.usedBytes(), staging.writtenBytes());
        return stagingFreed ? freed + 1 : freed;
    }

    /** Gives the receive slots that are empty back to the ledger, and tells the source what has arrived. */
    private int takeFreed() {
        int freed = 0;
        ChunkBits chunks = inbox.freedChunks();
        // Freed is read before arrived: an arrival is always marked first, so no receive slot is granted again unseen.
        chunks.drain();
        if (incoming.reportArrivals()) {
            for (; chunks.hasDrained(); freed++) {
                ledger.freed(ledger.slot(chunks.poll()));
            }
        }
        return freed;
    }

    /** Returns whether a mark was left that {@link #doWork} has not seen. */
    public boolean hasWork() {
        return inbox.hasWork() || incoming.hasArrivals() || (inbox.failure() != null && !failed);
    }

    private long arrivedBytes() {
        return incoming.arrivedBytes() + headBytes.get();
    }

    /** A step of the progress that the source shows. */
    public DataMessage.Progress progress() {
        lastProgress = new DataMessage.Progress(arrivedBytes(), inbox.readBytes(), staging.writtenBytes());
        return lastProgress;
    }

    /** The last such step. Any thread. */
    public DataMessage.Progress lastProgress() {
        return lastProgress;
    }

    public TransferReport report(long peakResidentBytes) {
        return new TransferReport(
                arrivedBytes(),
                inbox.readBytes(),
                staging.writtenBytes(),
                peakResidentBytes,
                timeline.firstReadNs(),
                timeline.samples());
    }

    /** Returns how many reads asked for bytes that were given away before. */
    public long refusedSeeks() {
        return inbox.refusedSeeks();
    }

    /**
     * Ends the transfer after the agent has ended: stops the transport, then frees every receive slot. Returns once
     * nothing of it is left.
     */
    public void close() {
        incoming.close();
        try {
            images.discard();
        } catch (ErrnoException e) {
            LOG.error("the names of a finished migration could not be taken away: {}", e.getMessage());
        }
        ledger.reclaimAll();
        staging.close();
        gauges.show(0, 0, 0, staging.writtenBytes());
    }

    private void onAdvertise(AdvertiseFrame frame) throws ImageException, ProtocolException {
        ArrivingFile file = images.file(frame.file());
        ReceiveSlot slot = ledger.advertised(file, frame.slot(), frame.offset(), frame.lengthBytes());
        incoming.add(file, slot, frame);
        file.onPieceAnnounced(slot, frame.offset(), frame.lengthBytes());
    }

    private void onPrefix(FilePrefixFrame frame) throws ImageException, ProtocolException {
        if (!frame.isConsistent()) {
            throw new ProtocolException(frame + " is outside a head: the source is broken");
        }
        images.file(frame.file()).prefixArrived(frame);
        hops.prefixReceived(frame.dataLengthBytes());
        headBytes.lazySet(headBytes.get() + frame.dataLengthBytes());
    }
}
