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
 * The data path of one migration at the target. A chunk arrives in its receive slot, sent or pulled, is checked,
 * published to readers, and released at the source.
 *
 * <p>The session's agent owns it and alone calls {@link #onFrame} and {@link #doWork}. The transport's threads report
 * to {@link ChunkReception}, FUSE's threads to {@link AgentInbox}. Both leave a mark and wake the agent if it has work.
 */
public final class Transfer {
    private static final Logger LOG = LoggerFactory.getLogger(Transfer.class);

    private final ControlLink link;
    private final AgentInbox inbox;
    private final SourceReplies replies;
    private final ArrivingImages images;
    private final Staging staging;
    private final CreditLedger ledger;
    private final ChunkReception reception;
    private final TransferWatch watch;
    private final ReadTimeline timeline = new ReadTimeline();
    private final TargetHops hops;
    private final TargetHops.TransferShare gauges;
    private final AdvertiseFrame advertise = new AdvertiseFrame();
    private final CreditRequestFrame creditRequest = new CreditRequestFrame();
    private final CreditFrame credit = new CreditFrame();
    private final FilePrefixFrame prefixFrame = new FilePrefixFrame();
    private final ValueFrame value = new ValueFrame();
    private final AtomicLong prefixBytes = new AtomicLong();
    private volatile DataMessage.Progress lastProgress = new DataMessage.Progress(0, 0, 0);
    private long frames;
    private boolean failed;

    /**
     * @param bounceBuffers the number of the pool's chunks that are bounce buffers
     * @param opens opens the transport's half, which reports to the given arrivals
     * @param onFailure called once, with the first reason
     * @param hops the meters of the bytes
     */
    public Transfer(
            TransferSettings settings,
            BufferPool pool,
            int bounceBuffers,
            ControlLink link,
            ArrivingImages.ImagesContext imagesContext,
            Function<Arrivals, TargetPath> opens,
            Consumer<String> onFailure,
            TargetHops hops)
            throws ErrnoException {
        this.link = link;
        this.hops = hops;
        this.gauges = hops.new TransferShare();
        int chunks = pool.geometry().chunkCount();
        inbox = new AgentInbox(link, hops, chunks, onFailure);
        replies = new SourceReplies(link, inbox::fail);
        staging = new Staging(settings.stagingDirectory(), settings.stagingLimitBytes());
        images = new ArrivingImages(imagesContext, staging, inbox);
        // Chunks are kept for readers of streams. A retained image may fill the pool. For a rank with several streams
        // one is expected, and the others are counted when they are created.
        ImageTraits traits = imagesContext.traits();
        boolean streamed = traits.readingMode() == ReadingMode.STREAMED
                || traits.completionMarkerName().isPresent();
        int streams = streamed ? imagesContext.ranks().size() : 0;
        ledger = new CreditLedger(pool, bounceBuffers, staging, streams, inbox::uncoveredStreams, replies);
        watch = new TransferWatch(settings.stallLimit(), ledger, images);
        reception = new ChunkReception(pool, ledger, link, inbox, replies, hops);
        reception.open(opens);
    }

    public ArrivingImages images() {
        return images;
    }

    /** Returns whether every byte of every rank arrived and was checked. */
    public boolean complete() {
        return images.isComplete() && !reception.isUnderWay() && inbox.failure() == null;
    }

    /** Fails the migration. Only the first reason counts. Any thread. */
    public void fail(String reason) {
        inbox.fail(reason);
    }

    /** Stops the transfer for an external reason. Any thread. */
    public void stop(String reason) {
        inbox.stop(reason);
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** Handles one frame of the source. */
    public void onFrame(FrameType type, DirectBuffer buffer, int offset) throws IOException {
        frames++;
        try {
            switch (type) {
                case ADVERTISE -> onAdvertise(advertise.wrap(buffer, offset));
                case CREDIT_REQUEST -> {
                    creditRequest.wrap(buffer, offset);
                    // Chunks that were sent before this request arrived, so their credits are used.
                    reception.reportArrivals();
                    ledger.requestCredits(
                            images.file(creditRequest.file()),
                            creditRequest.window(),
                            creditRequest.count(),
                            creditRequest.flags());
                }
                case CREDIT_RETURN -> {
                    credit.wrap(buffer, offset);
                    ledger.onCreditReturned(images.file(credit.file()), credit.slot());
                }
                case FILE_PREFIX -> onPrefix(prefixFrame.wrap(buffer, offset));
                case TRUNCATE -> {
                    value.wrap(buffer, offset);
                    images.file(value.file()).truncate(value.value());
                }
                case SYNC -> {
                    int file = value.wrap(buffer, offset).file();
                    replies.sync(file, value.value(), reception.nextOrder(), reception.underWay(file));
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

    /** Handles a change of names. */
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
            fail("names at the source and at the target differ: " + e.getMessage());
        }
    }

    /** Handles the source's message that a rail ends. */
    public void onEndRail(DataMessage.EndRail request) throws ProtocolException {
        frames++;
        reception.endRail(request);
    }

    /**
     * The source was lost, so no more bytes arrive. The migration decides whether that is a failure, because a source
     * that rolls back also disconnects. On the agent's thread, or after that ended.
     */
    void onSourceLost(String reason) {
        stop(reason);
        images.fail(inbox.failure());
    }

    /** Does all other work of a cycle, and returns its amount. */
    public int doWork(long nowNs) throws IOException {
        String failure = inbox.failure();
        if (failure != null && !failed) {
            failed = true;
            images.fail(failure);
            link.sendFromAgent(new DataMessage.TransferFailure(failure));
        }
        int freed = releaseFreedSlots();
        boolean stagingFreed = inbox.pollStagingFreed();
        if (inbox.pollReaderWaits() || stagingFreed || freed > 0) {
            ledger.serve();
        }
        inbox.slotIsAwaited(ledger.hasBlockedWriter());
        reception.start();
        long readBytes = inbox.readBytes();
        if (!failed) {
            String stuck = watch.check(nowNs, arrivedBytes() + readBytes + frames, reception.isUnderWay());
            if (stuck != null) {
                fail(stuck);
            }
        }
        timeline.sample(nowNs, readBytes);
        gauges.update(reception.queued(), reception.inFlight(), staging.usedBytes(), staging.writtenBytes());
        return stagingFreed ? freed + 1 : freed;
    }

    /** Returns empty receive slots to the ledger, and reports arrivals to the source. */
    private int releaseFreedSlots() {
        int freed = 0;
        ChunkBits chunks = inbox.freedChunks();
        // Freed slots are read before arrivals: an arrival is always marked first, so no slot is granted again before
        // its arrival is recorded.
        chunks.drain();
        if (reception.reportArrivals()) {
            for (; chunks.hasDrained(); freed++) {
                ledger.onSlotFree(ledger.slot(chunks.poll()));
            }
        }
        return freed;
    }

    /** Returns whether there is a mark that {@link #doWork} did not process. */
    public boolean hasWork() {
        return inbox.hasWork() || reception.hasArrivals() || (inbox.failure() != null && !failed);
    }

    private long arrivedBytes() {
        return reception.arrivedBytes() + prefixBytes.get();
    }

    /** Returns the progress for the source. */
    public DataMessage.Progress progress() {
        lastProgress = new DataMessage.Progress(arrivedBytes(), inbox.readBytes(), staging.writtenBytes());
        return lastProgress;
    }

    /** Returns the last progress. Any thread. */
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

    /** Returns how many reads requested bytes that were read before. */
    public long refusedSeeks() {
        return inbox.refusedSeeks();
    }

    /**
     * Closes the transfer after the agent ended: stops the transport, then frees every receive slot. Returns when all
     * resources are released.
     */
    public void close() {
        reception.close();
        try {
            images.discard();
        } catch (ErrnoException e) {
            LOG.error("the names of a finished migration could not be removed: {}", e.getMessage());
        }
        ledger.reclaimAll();
        staging.close();
        gauges.update(0, 0, 0, staging.writtenBytes());
    }

    private void onAdvertise(AdvertiseFrame frame) throws ImageException, ProtocolException {
        ArrivingFile file = images.file(frame.file());
        ReceiveSlot slot = ledger.onAdvertised(file, frame.slot(), frame.offset(), frame.lengthBytes());
        reception.add(file, slot, frame);
        file.onPieceAnnounced(slot, frame.offset(), frame.lengthBytes());
    }

    private void onPrefix(FilePrefixFrame frame) throws ImageException, ProtocolException {
        if (!frame.isConsistent()) {
            throw new ProtocolException(frame + " is outside of a prefix: the source is broken");
        }
        ArrivingFile file = images.file(frame.file());
        file.onPrefixArrived(frame);
        file.rank().addArrived(frame.dataLengthBytes());
        hops.prefixReceived(frame.dataLengthBytes());
        prefixBytes.lazySet(prefixBytes.get() + frame.dataLengthBytes());
    }
}
