package io.ppmr.target.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.os.LogContext;
import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.CreditFrame;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.DenyReason;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.CreditLedger;
import io.ppmr.target.image.ImageException;
import io.ppmr.target.image.ImageListener;
import io.ppmr.target.image.ReceiveSlot;
import io.ppmr.target.image.StagingArea;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.PullListener;
import java.io.IOException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.function.Function;
import org.agrona.DirectBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The data path of one migration at the target: an advertised chunk is pulled into its slot, checked, shown to readers,
 * and released at the source.
 *
 * <p>The session's agent owns it and alone calls {@link #onFrame} and {@link #doWork}. The transport's threads report
 * pulls, FUSE's threads report reads: both leave a mark and wake the agent.
 */
public final class Transfer implements PullListener, ImageListener, CreditLedger.Decisions {
    private static final Logger LOG = LoggerFactory.getLogger(Transfer.class);
    private static final int FRAME_BYTES = 64;

    private final ControlLink link;
    private final ArrivingImages images;
    private final StagingArea staging;
    private final CreditLedger ledger;
    private final Pulls pulls;
    private final Consumer<String> onFailure;
    private final TransferWatch watch;
    private final TargetHops hops;
    private final TargetHops.Share gauges;

    private final ChunkBits freedChunks;
    private final long[] freedNow;
    private final ConcurrentLinkedQueue<ReceiveSlot> freedStaging = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean readerWaits = new AtomicBoolean();
    private final AtomicInteger uncoveredStreams = new AtomicInteger();
    private final AtomicReference<String> failure = new AtomicReference<>();
    private final LongAdder readBytes = new LongAdder();
    private final AtomicLong refusedSeeks = new AtomicLong();
    private final PendingSyncs syncs;
    private final AdvertiseFrame advertise = new AdvertiseFrame();
    private final CreditRequestFrame want = new CreditRequestFrame();
    private final CreditFrame slotFrame = new CreditFrame();
    private final FilePrefixFrame head = new FilePrefixFrame();
    private final ValueFrame value = new ValueFrame();
    private final AtomicLong arrivedBytes = new AtomicLong();
    private final AtomicLong headBytes = new AtomicLong();
    /** Whoever makes it knows the migration and the peer; those who call it often do not. */
    private final LogContext about = LogContext.ofThisThread();

    private volatile DataMessage.Progress lastProgress = new DataMessage.Progress(0, 0, 0);
    private long frames;
    private boolean failed;

    /**
     * @param bounceBuffers how many of the pool's chunks are bounce buffers
     * @param makePuller makes the transport's half, which reports to the listener that it is given
     * @param onFailure told the first reason, once
     * @param hops where the bytes are counted on their way
     */
    public Transfer(
            TransferSettings settings,
            BufferPool pool,
            int bounceBuffers,
            ControlLink link,
            ArrivingImages.Setting imageSetting,
            Function<PullListener, ChunkPuller> makePuller,
            Consumer<String> onFailure,
            TargetHops hops)
            throws ErrnoException {
        this.link = link;
        this.hops = hops;
        this.gauges = hops.new Share();
        this.syncs = new PendingSyncs(link);
        this.onFailure = onFailure;
        int chunks = pool.geometry().chunkCount();
        freedChunks = new ChunkBits(chunks);
        freedNow = new long[freedChunks.wordCount()];
        staging = new StagingArea(settings.stagingDirectory(), pool.geometry(), settings.stagingLimitBytes(), chunks);
        images = new ArrivingImages(imageSetting, this);
        // Chunks are kept for readers of streams; a retained image may fill the pool.
        boolean streamed = imageSetting.habits().readingMode() == ReadingMode.STREAMED;
        int streams = streamed ? imageSetting.ranks().size() : 0;
        ledger = new CreditLedger(pool, bounceBuffers, staging, streams, uncoveredStreams::get, this);
        watch = new TransferWatch(settings.stallLimit(), ledger, images);
        pulls = new Pulls(pool, ledger, this::fail, makePuller, this, hops);
    }

    public ArrivingImages images() {
        return images;
    }

    /** Whether every byte of every rank has come and was checked. */
    public boolean complete() {
        return images.complete() && pulls.underWay() == 0 && failure.get() == null;
    }

    /** Fails the migration; the first reason counts. Any thread. */
    public void fail(String reason) {
        if (failure.compareAndSet(null, reason)) {
            about.logging(() -> LOG.error("the migration fails: {}", reason));
            onFailure.accept(reason);
            link.wake();
        }
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
                    ledger.want(images.file(want.file()), want.window(), want.count(), want.flags());
                }
                case CREDIT_RETURN -> {
                    slotFrame.wrap(buffer, offset);
                    ledger.returned(images.file(slotFrame.file()), slotFrame.slot());
                }
                case FILE_PREFIX -> onHead(head.wrap(buffer, offset));
                case TRUNCATE -> {
                    value.wrap(buffer, offset);
                    images.file(value.file()).truncated(value.value());
                }
                case SYNC -> onSync(value.wrap(buffer, offset));
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

    /** Fails the migration from the agent's own thread, or where that has ended: it will not run again. */
    void failOnAgent(String reason) {
        fail(reason);
        images.fail(failure.get());
    }

    /** Everything that is to be done beside the frames; gives how much was done. */
    public int doWork(long nowNs) throws IOException {
        if (failure.get() != null && !failed) {
            failed = true;
            images.fail(failure.get());
            link.sendFromAgent(new DataMessage.Failed(failure.get()));
        }
        // Freed is read before arrived: a slot's arrival is always marked first, so it is never granted anew unseen.
        freedChunks.drainTo(freedNow);
        int freed = 0;
        if (pulls.reportArrivals()) {
            freed = ChunkBits.forEach(freedNow, chunk -> ledger.freed(ledger.slot(chunk)));
        }
        for (ReceiveSlot slot = freedStaging.poll(); slot != null; slot = freedStaging.poll()) {
            ledger.freed(slot);
            freed++;
        }
        if (freed > 0 || readerWaits.getAndSet(false)) {
            ledger.serve();
        }
        pulls.start();
        if (!failed) {
            String stuck = watch.check(
                    nowNs, arrivedBytes.get() + headBytes.get() + readBytes.sum() + frames, pulls.underWay() > 0);
            if (stuck != null) {
                fail(stuck);
            }
        }
        watch.sample(nowNs, readBytes.sum());
        gauges.show(pulls.queued(), pulls.inFlight(), staging.usedBytes(), ledger.stagedBytes());
        return freed;
    }

    /** Whether a mark was left that {@link #doWork} has not seen. */
    public boolean hasWork() {
        return readerWaits.get()
                || pulls.hasArrivals()
                || !freedChunks.isEmpty()
                || !freedStaging.isEmpty()
                || (failure.get() != null && !failed);
    }

    /** A step of the progress that the source shows. */
    public DataMessage.Progress progress() {
        lastProgress =
                new DataMessage.Progress(arrivedBytes.get() + headBytes.get(), readBytes.sum(), ledger.stagedBytes());
        return lastProgress;
    }

    /** The last such step. Any thread. */
    public DataMessage.Progress lastProgress() {
        return lastProgress;
    }

    public TransferReport report(long peakResidentBytes) {
        return new TransferReport(
                arrivedBytes.get() + headBytes.get(),
                readBytes.sum(),
                ledger.stagedBytes(),
                peakResidentBytes,
                watch.firstReadNs(),
                watch.samples());
    }

    /** How many reads asked for bytes that were given away before. */
    public long refusedSeeks() {
        return refusedSeeks.get();
    }

    /**
     * Ends the transfer after the agent has ended: stops the transport, then frees every slot. Returns once nothing of
     * it is left.
     */
    public void close() {
        pulls.close();
        try {
            images.discard();
        } catch (ErrnoException e) {
            LOG.error("the names of a finished migration could not be taken away: {}", e.getMessage());
        }
        ledger.reclaimAll();
        staging.close();
        gauges.show(0, 0, 0, ledger.stagedBytes());
    }

    private void onAdvertise(AdvertiseFrame frame) throws ImageException, ProtocolException {
        ArrivingFile file = images.file(frame.file());
        ReceiveSlot slot = ledger.advertised(file, frame.slot(), frame.offset(), frame.lengthBytes());
        slot.offset = frame.offset();
        slot.lengthBytes = frame.lengthBytes();
        slot.crc32c = frame.crc32c();
        slot.sourceChunk = frame.sourceChunk();
        slot.order = frame.order();
        pulls.add(slot, frame);
        file.advertised(slot);
    }

    private void onHead(FilePrefixFrame frame) throws ImageException, ProtocolException {
        if (!frame.isConsistent()) {
            throw new ProtocolException(frame + " is outside a head: the source is broken");
        }
        images.file(frame.file()).headArrived(frame);
        hops.head(frame.dataLengthBytes());
        headBytes.lazySet(headBytes.get() + frame.dataLengthBytes());
    }

    private void onSync(ValueFrame frame) {
        syncs.add(frame.file(), frame.value(), pulls.nextOrder(), pulls.underWay(frame.file()));
    }

    /** A chunk has come: the source may reuse its own. */
    void released(ReceiveSlot slot, int file) {
        arrivedBytes.lazySet(arrivedBytes.get() + slot.lengthBytes);
        link.advance(ReleaseFrame.encode(
                link.outBuffer(), link.outOffset(), link.attempt(), file, slot.order, slot.sourceChunk));
        syncs.arrived(file, slot.order);
    }

    boolean roomForReleases(int count) {
        return link.hasRoom(count * FRAME_BYTES);
    }

    @Override
    public void granted(ArrivingFile file, ReceiveSlot slot) {
        decide(FrameType.CREDIT, file, slot.window, slot.index());
    }

    @Override
    public void denied(ArrivingFile file, long window, DenyReason reason, String message) {
        decide(FrameType.CREDIT_DENIAL, file, window, reason.code());
        fail(message);
    }

    private void decide(FrameType type, ArrivingFile file, long window, int slotOrReason) {
        if (!link.hasRoom(FRAME_BYTES)) {
            fail("the source takes no frames: " + link.outOffset() + " bytes of answers to it are waiting");
            return;
        }
        link.advance(CreditFrame.encode(
                link.outBuffer(), link.outOffset(), type, link.attempt(), file.id(), window, slotOrReason));
    }

    // ---- the transport's and FUSE's threads -------------------------------------------------------------------

    @Override
    public void pulled(long pullId) {
        pulls.pulled(pullId);
        link.wake();
    }

    @Override
    public void pullFailed(long pullId, String reason) {
        fail(reason);
    }

    @Override
    public void slotFree(ReceiveSlot slot) {
        if (slot.kind() == ReceiveSlot.Kind.STAGING) {
            freedStaging.add(slot);
        } else {
            freedChunks.set(slot.chunk());
        }
        link.wake();
    }

    @Override
    public void readerWaits(ArrivingFile file) {
        if (!readerWaits.get()) {
            readerWaits.set(true);
            link.wake();
        }
    }

    @Override
    public void readerWaited(ArrivingFile file, long tookNs) {
        hops.readerWaited(file.id(), tookNs);
    }

    @Override
    public void uncoveredStreams(int change) {
        uncoveredStreams.addAndGet(change);
    }

    @Override
    public void bytesRead(long bytes) {
        readBytes.add(bytes);
        hops.read(bytes);
    }

    @Override
    public void seekRefused(ArrivingFile file, long offset) {
        refusedSeeks.incrementAndGet();
        String text = "file {}: a restart asks for offset {}, which it has read before; a streamed image is read once: "
                + "configure the checkpointer as retained";
        about.logging(() -> LOG.warn(text, file.name(), offset));
    }
}
