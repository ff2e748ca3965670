package io.ppmr.target.session;

import io.ppmr.protocol.data.CreditFrame;
import io.ppmr.protocol.data.DenyReason;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.CreditLedger;
import io.ppmr.target.image.ReceiveSlot;
import io.ppmr.transport.ControlLink;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * The answers of one transfer to the source: credits and denials, releases, and the ends of its fsyncs, each of which
 * waits until everything of its file that was advertised before it has arrived. Written in place into the link's
 * buffer. Owned by the session's agent.
 */
final class SourceReplies implements CreditLedger.Decisions {
    private static final int FRAME_BYTES = 64;
    /** More threads of a node's jobs never wait for an fsync at once. */
    private static final int MOST_SYNCS = 16_384;

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
    private final Consumer<String> onFailure;
    private final List<PendingSync> syncs = new ArrayList<>();

    SourceReplies(ControlLink link, Consumer<String> onFailure) {
        this.link = link;
        this.onFailure = onFailure;
    }

    /** Returns whether there is room for releases, and for the credits that may follow from them. */
    boolean hasRoomForReleases() {
        return link.hasRoom(Long.SIZE * FRAME_BYTES);
    }

    /** A chunk has come: the source may reuse its own. */
    void released(int file, long order, int sourceChunk) {
        link.advance(ReleaseFrame.encode(link.outBuffer(), link.outOffset(), link.attempt(), file, order, sourceChunk));
        if (!syncs.isEmpty()) {
            for (PendingSync sync : syncs) {
                sync.outstanding -= sync.file == file && order < sync.beforeOrder ? 1 : 0;
            }
            answerSyncs();
        }
    }

    /**
     * The source asks for the end of an fsync.
     *
     * @param beforeOrder order that the next advertisement will have
     * @param outstanding pulls of the file that are under way
     */
    void sync(int file, long token, long beforeOrder, int outstanding) throws ProtocolException {
        if (syncs.size() == MOST_SYNCS) {
            throw new ProtocolException("the source asks for the end of more than " + MOST_SYNCS + " fsyncs at once");
        }
        syncs.add(new PendingSync(file, token, beforeOrder, outstanding));
        answerSyncs();
    }

    /** Answers what can be answered, as far as the link has room. */
    private void answerSyncs() {
        syncs.removeIf(sync -> {
            if (sync.outstanding > 0 || !link.hasRoom(ValueFrame.LENGTH_BYTES)) {
                return false;
            }
            link.advance(ValueFrame.encode(
                    link.outBuffer(), link.outOffset(), FrameType.SYNCED, link.attempt(), sync.file, sync.token));
            return true;
        });
    }

    @Override
    public void granted(ArrivingFile file, ReceiveSlot slot) {
        decide(FrameType.CREDIT, file, slot.window(), slot.index());
    }

    @Override
    public void denied(ArrivingFile file, long window, DenyReason reason, String message) {
        decide(FrameType.CREDIT_DENIAL, file, window, reason.code());
        onFailure.accept(message);
    }

    private void decide(FrameType type, ArrivingFile file, long window, int slotOrReason) {
        if (!link.hasRoom(FRAME_BYTES)) {
            onFailure.accept("the source takes no frames: " + link.outOffset() + " bytes of answers to it are waiting");
            return;
        }
        link.advance(CreditFrame.encode(
                link.outBuffer(), link.outOffset(), type, link.attempt(), file.id(), window, slotOrReason));
    }
}
