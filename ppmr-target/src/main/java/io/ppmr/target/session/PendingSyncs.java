package io.ppmr.target.session;

import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.transport.ControlLink;
import java.util.ArrayList;
import java.util.List;

/**
 * The fsyncs of the source that wait for their answer: each until everything of its file that was advertised before it
 * has arrived. Owned by the session's agent.
 */
final class PendingSyncs {
    private static final class PendingSync {
        private final int file;
        private final long token;
        private final long beforeOrder;
        private int outstanding;

        private PendingSync(int file, long token, long beforeOrder, int outstanding) {
            this.file = file;
            this.token = token;
            this.beforeOrder = beforeOrder;
            this.outstanding = outstanding;
        }
    }

    private final ControlLink link;
    private final List<PendingSync> syncs = new ArrayList<>();

    PendingSyncs(ControlLink link) {
        this.link = link;
    }

    /**
     * A sync has come.
     *
     * @param beforeOrder order that the next advertisement will have
     * @param outstanding pulls of the file that are under way
     */
    void add(int file, long token, long beforeOrder, int outstanding) {
        syncs.add(new PendingSync(file, token, beforeOrder, outstanding));
        answer();
    }

    /** A chunk of a file has arrived. */
    void arrived(int file, long order) {
        if (syncs.isEmpty()) {
            return;
        }
        for (PendingSync sync : syncs) {
            sync.outstanding -= sync.file == file && order < sync.beforeOrder ? 1 : 0;
        }
        answer();
    }

    /** Answers what can be answered, as far as the link has room. */
    void answer() {
        syncs.removeIf(sync -> {
            if (sync.outstanding > 0 || !link.hasRoom(ValueFrame.LENGTH_BYTES)) {
                return false;
            }
            link.advance(ValueFrame.encode(
                    link.outBuffer(), link.outOffset(), FrameType.SYNCED, link.attempt(), sync.file, sync.token));
            return true;
        });
    }
}
