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
 * The answers of one transfer to the source: credits and denials, releases, and the ends of its fsyncs. An fsync ends
 * when all earlier advertised chunks of its file arrived. Written in place into the link's buffer. Owned by the
 * session's agent.
 */
final class SourceReplies implements CreditLedger.Decisions {
    private static final int FRAME_BYTES = 64;
    /** Higher than the number of concurrent fsyncs of a node's jobs. */
    private static final int MAX_SYNCS = 16_384;

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

    /** Returns whether there is space for releases, and for the credits that may follow. */
    boolean hasSpaceForReleases() {
        return link.hasSpace(Long.SIZE * FRAME_BYTES);
    }

    /** Sends the release of a chunk that arrived, so that the source may reuse it. */
    void sendRelease(int file, long order, int sourceChunk) {
        link.advance(ReleaseFrame.encode(link.outBuffer(), link.outOffset(), link.attempt(), file, order, sourceChunk));
        if (!syncs.isEmpty()) {
            for (PendingSync sync : syncs) {
                sync.outstanding -= sync.file == file && order < sync.beforeOrder ? 1 : 0;
            }
            answerSyncs();
        }
    }

    /**
     * Handles the source's request for the end of an fsync.
     *
     * @param beforeOrder the order of the next advertisement
     * @param outstanding the running pulls of the file
     */
    void sync(int file, long token, long beforeOrder, int outstanding) throws ProtocolException {
        if (syncs.size() == MAX_SYNCS) {
            throw new ProtocolException("the source has more than " + MAX_SYNCS + " pending fsyncs");
        }
        syncs.add(new PendingSync(file, token, beforeOrder, outstanding));
        answerSyncs();
    }

    /** Sends the answers that are possible, as far as the link has space. */
    private void answerSyncs() {
        syncs.removeIf(sync -> {
            if (sync.outstanding > 0 || !link.hasSpace(ValueFrame.LENGTH_BYTES)) {
                return false;
            }
            link.advance(ValueFrame.encode(
                    link.outBuffer(), link.outOffset(), FrameType.SYNCED, link.attempt(), sync.file, sync.token));
            return true;
        });
    }

    @Override
    public void granted(ArrivingFile file, ReceiveSlot slot) {
        sendDecision(FrameType.CREDIT, file, slot.window(), slot.index());
    }

    @Override
    public void denied(ArrivingFile file, long window, DenyReason reason, String message) {
        sendDecision(FrameType.CREDIT_DENIAL, file, window, reason.code());
        onFailure.accept(message);
    }

    private void sendDecision(FrameType type, ArrivingFile file, long window, int slotOrReason) {
        if (!link.hasSpace(FRAME_BYTES)) {
            onFailure.accept("the source accepts no frames: " + link.outOffset() + " bytes of answers are waiting");
            return;
        }
        link.advance(CreditFrame.encode(
                link.outBuffer(), link.outOffset(), type, link.attempt(), file.id(), window, slotOrReason));
    }
}
