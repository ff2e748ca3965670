package io.ppmr.bench.node;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.DenyReason;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.NodeKind;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.CreditLedger;
import io.ppmr.target.image.FilePrefixStore;
import io.ppmr.target.image.ImageException;
import io.ppmr.target.image.ImageListener;
import io.ppmr.target.image.ReceiveSlot;
import io.ppmr.target.image.Staging;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.agrona.concurrent.UnsafeBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A target without network. Every granted chunk arrives at once. {@code begin READERS BYTES} returns the directory.
 * Each file has its share of the pool. A chunk that a reader emptied is granted to the same file again, and is full
 * before the read returns. So chunks have always arrived, and only reading is measured. No agent has to be scheduled in
 * between.
 */
final class RestartNode implements NodeMain.BenchNode, ImageListener, CreditLedger.Decisions {
    private static final Logger LOG = LoggerFactory.getLogger(RestartNode.class);
    private static final int HEAD_BYTES = FilePrefixFrame.PREFIX_BYTES;
    private final PoolGeometry geometry;
    private final BufferPool pool;
    private final FilePrefixStore prefixes = new FilePrefixStore(TargetNode.SETTINGS.prefixesLimitBytes());
    private final ArrivingImageView view = new ArrivingImageView();
    private final FuseMount mount;
    private final ArrayDeque<ReceiveSlot> grants = new ArrayDeque<>();
    private final AtomicInteger uncovered = new AtomicInteger();
    private final List<Feed> feeds = new ArrayList<>();
    private final Object ledgerLock = new Object();
    private final int[] fileOf;
    private ArrivingImages images;
    private Staging staging;
    private CreditLedger ledger;
    private boolean over;
    private String directory;
    private int runs;

    /** One file, fed as the ledger grants. */
    private static final class Feed {
        private final ArrivingFile file;
        private final long windows;
        private long wanted;
        private int held;
        private boolean ended;

        private Feed(ArrivingFile file, long windows) {
            this.file = file;
            this.windows = windows;
        }
    }

    RestartNode(NodeMain.Setting setting) throws Exception {
        setting.warmUp();
        geometry = setting.geometry();
        pool = new BufferPool(geometry.plus(1));
        fileOf = new int[pool.geometry().chunkCount()];
        mount = FuseMount.mount(view, setting.mountPoint(), MountOptions.named("ppmr-bench"));
    }

    @Override
    public String begin(List<String> words) throws Exception {
        int readers = Integer.parseInt(words.get(0));
        long bytes = Long.parseLong(words.get(1));
        directory = TargetNode.DIRECTORY + ++runs;
        staging = new Staging(Path.of("/dev/shm"), 0);
        images = new ArrivingImages(
                new ArrivingImages.ImagesContext(
                        directory,
                        new TargetNode.Traits(),
                        view.tree(),
                        geometry,
                        prefixes,
                        0,
                        0,
                        IntStream.range(0, readers).boxed().toList()),
                staging,
                this);
        ledger = new CreditLedger(pool, 1, staging, 0, uncovered::get, this);
        feeds.clear();
        for (int reader = 0; reader < readers; reader++) {
            ArrivingFile file = images.apply(new DataMessage.Created(
                    reader + 1, NodeKind.FILE, ArrivingImages.rankPath(reader) + "/image", 0600, 0, 0, ""));
            UnsafeBuffer head = new UnsafeBuffer(ByteBuffer.allocateDirect(FilePrefixFrame.DATA_OFFSET + HEAD_BYTES));
            FilePrefixFrame.encode(head, 0, 1, file.id(), 0, HEAD_BYTES);
            file.onPrefixArrived(new FilePrefixFrame().wrap(head, 0));
            ledger.fileCreated(file);
            feeds.add(new Feed(file, bytes / geometry.chunkBytes()));
        }
        view.add(directory, images);
        synchronized (ledgerLock) {
            over = false;
            for (Feed feed : feeds) {
                want(feed);
            }
        }
        return directory;
    }

    @Override
    public void end() throws Exception {
        synchronized (ledgerLock) {
            over = true;
        }
        images.discard();
        ledger.reclaimAll();
        view.remove(directory);
        prefixes.reset();
        uncovered.set(0);
    }

    @Override
    public void close() throws IOException {
        mount.close();
    }

    /** Requests every file's share of the pool ahead. */
    private void want(Feed feed) throws ProtocolException, ImageException {
        long share = Math.max(1, geometry.chunkCount() / feeds.size());
        int count =
                (int) Math.min(feed.windows - feed.wanted, Math.min(share - feed.held, CreditRequestFrame.MAX_COUNT));
        if (count > 0) {
            feed.wanted += count;
            feed.held += count;
            ledger.requestCredits(feed.file, feed.wanted - count, count, 0);
            fillGranted();
        }
        if (!feed.ended && feed.file.size() == feed.windows * geometry.chunkBytes()) {
            feed.ended = true;
            feed.file.end(feed.file.size());
            ledger.fileEnded(feed.file);
        }
    }

    /** The ledger must not be called again while it decides. */
    @Override
    public void granted(ArrivingFile file, ReceiveSlot slot) {
        grants.add(slot);
    }

    private void fillGranted() throws ProtocolException, ImageException {
        for (ReceiveSlot slot = grants.poll(); slot != null; slot = grants.poll()) {
            ArrivingFile file = slot.file();
            int start = slot.window() == 0 ? HEAD_BYTES : 0;
            long offset = slot.window() * geometry.chunkBytes() + start;
            int length = geometry.chunkBytes() - start;
            ledger.onAdvertised(file, slot.index(), offset, length);
            fileOf[slot.index()] = file.id();
            file.onPieceAnnounced(slot, offset, length);
            file.onArrived(slot);
        }
    }

    @Override
    public void denied(ArrivingFile file, long window, DenyReason reason, String message) {
        LOG.error("denied: {}", message);
    }

    @Override
    public void slotFree(ReceiveSlot slot) {
        // This runs under the file's lock. No ledger call locks it except for this file.
        synchronized (ledgerLock) {
            if (over) {
                return;
            }
            try {
                ledger.onSlotFree(slot);
                Feed feed = feeds.get(fileOf[slot.index()] - 1);
                feed.held--;
                want(feed);
            } catch (ProtocolException | ImageException e) {
                LOG.error("the run fails", e);
                images.fail(e.getMessage());
            }
        }
    }

    @Override
    public void stagingFailed(ArrivingFile file, String reason) {
        LOG.error("file {}: its index is full", file.name());
    }

    @Override
    public void uncoveredStreams(int change) {
        uncovered.addAndGet(change);
    }

    @Override
    public void seekRefused(ArrivingFile file, long offset) {
        LOG.error("file {}: a seek to {} was refused", file.name(), offset);
    }
}
