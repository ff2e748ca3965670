package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvWC.IbvWcStatus;

/** Describes failed completions. */
final class WorkFailure {
    /** The status of every successful completion (enum ibv_wc_status of ibv_poll_cq(3)). */
    static final int SUCCESS = 0;

    private WorkFailure() {}

    /** Describes a failed request: the name of the status, its meaning here, the device and the peer. */
    static String text(String request, int status, String path) {
        return request + " failed: " + name(status) + " (" + path + ")" + remedy(status);
    }

    static String name(int status) {
        IbvWcStatus known = known(status);
        return known == null ? "status " + status : known.name();
    }

    private static IbvWcStatus known(int status) {
        IbvWcStatus[] all = IbvWcStatus.values();
        return status >= 0 && status < all.length ? all[status] : null;
    }

    private static String remedy(int status) {
        IbvWcStatus known = known(status);
        if (known == null) {
            return "";
        }
        return switch (known) {
            case IBV_WC_RETRY_EXC_ERR -> ": the peer's device does not respond; its node, a link or a switch is down";
            case IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR ->
                ": the peer's device refuses the address or the key; the block is outside its region";
            case IBV_WC_LOC_QP_OP_ERR -> ": this node's device could not execute it; is its link up?";
            case IBV_WC_RNR_RETRY_EXC_ERR ->
                ": the peer's service posted no receive; it hangs, or violates the protocol";
            case IBV_WC_WR_FLUSH_ERR -> ": the connection was closed";
            default -> "";
        };
    }
}
