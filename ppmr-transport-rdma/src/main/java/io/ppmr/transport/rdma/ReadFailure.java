package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvWC.IbvWcStatus;

/** Says what a failed completion means. */
final class ReadFailure {
    /** Of every completion that ended well (enum ibv_wc_status of ibv_poll_cq(3)). */
    static final int SUCCESS = 0;

    private ReadFailure() {}

    /** The status by name, what it means here, the device and the peer. */
    static String text(int status, int lengthBytes, String path) {
        return "RDMA Read of " + lengthBytes + " bytes failed: " + name(status) + " (" + path + ")" + remedy(status);
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
            case IBV_WC_RETRY_EXC_ERR ->
                ": the peer's device does not answer any more; its node, a link or a switch is down";
            case IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR ->
                ": the peer's device refuses the address or the key; the advertised block is outside its region";
            case IBV_WC_WR_FLUSH_ERR -> ": the connection was ended";
            default -> "";
        };
    }
}
