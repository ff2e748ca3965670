package io.ppmr.source.image;

import io.ppmr.bufferpool.FairClaims;
import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.FrameType;
import java.io.IOException;
import java.util.concurrent.CountDownLatch;

/** A target for tests: it grants every slot, denies every slot, does not answer, or is disconnected. */
final class TestOutlet implements Outlet {
    /** Its behaviour. */
    enum Mood {
        GRANTS,
        DENIES,
        /** Slots are granted, but no chunk is released and no fsync is answered. */
        TAKES_NOTHING,
        /** No request is answered. */
        SILENT,
        CUT
    }

    private final FairClaims claims;
    private final CountDownLatch failed = new CountDownLatch(1);
    private volatile Mood mood = Mood.GRANTS;
    private volatile int untilCut = Integer.MAX_VALUE;
    private volatile int frames;

    TestOutlet(FairClaims claims) {
        this.claims = claims;
    }

    TestOutlet mood(Mood next) {
        mood = next;
        return this;
    }

    /** Disconnects the network after this many more frames. */
    void cutAfter(int more) {
        untilCut = frames + more;
    }

    /** Returns the number of received frames. */
    int frames() {
        return frames;
    }

    /** Fails the files like the session of a failed migration. */
    void fail() {
        failed.countDown();
    }

    private synchronized void frame() throws IOException {
        if (mood == Mood.CUT || frames >= untilCut) {
            throw new IOException("the network is down");
        }
        frames++;
    }

    @Override
    public void requestCredits(OutgoingFile file, long window, int count, int flags) throws IOException {
        frame();
        for (int i = 0; i < count && mood != Mood.SILENT; i++) {
            if (mood == Mood.DENIES) {
                file.denied(window + i);
            } else {
                file.granted(window + i, 0);
            }
        }
    }

    @Override
    public void returnCredit(OutgoingFile file, long window, int slot) throws IOException {
        frame();
    }

    @Override
    public void sendPrefix(OutgoingFile file, int position, long address, int lengthBytes) throws IOException {
        frame();
    }

    @Override
    public void sendChunk(
            OutgoingFile file, int chunk, int offsetInChunk, long offset, int lengthBytes, int slot, long claimedNs)
            throws IOException {
        frame();
        if (mood != Mood.TAKES_NOTHING) {
            claims.release(chunk);
        }
    }

    @Override
    public void sendValue(FrameType type, int file, long value) throws IOException {
        frame();
    }

    @Override
    public void sendNameChange(NameChange change) throws IOException {
        frame();
    }

    @Override
    public void sync(OutgoingFile file) throws IOException, InterruptedException {
        frame();
        if (mood == Mood.TAKES_NOTHING) {
            failed.await();
            throw new IOException("fsync: the migration failed");
        }
    }
}
