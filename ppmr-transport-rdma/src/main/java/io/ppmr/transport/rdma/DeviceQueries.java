package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvContext;
import com.ibm.disni.verbs.IbvQP;
import com.ibm.disni.verbs.impl.NatIbvContext;
import com.ibm.disni.verbs.impl.NatIbvQP;

/**
 * What DiSNI cannot tell about a device. Our own {@code libdisni.so} can; a site's own library cannot, and then careful
 * answers are given.
 */
final class DeviceQueries {
    /** What every device of the last fifteen years can have under way. */
    static final int CAREFUL_DEPTH = 16;

    private DeviceQueries() {}

    /** How many reads of this queue pair may be under way, as negotiated when it was connected; 0 is none. */
    static int readsUnderWay(IbvQP queuePair) {
        try {
            int most = maxReadsUnderWay(((NatIbvQP) queuePair).getObjId());
            return most < 0 ? CAREFUL_DEPTH : most;
        } catch (UnsatisfiedLinkError e) {
            return CAREFUL_DEPTH;
        }
    }

    static String name(IbvContext context) {
        try {
            return deviceName(((NatIbvContext) context).getObjId());
        } catch (UnsatisfiedLinkError e) {
            return "device";
        }
    }

    private static native int maxReadsUnderWay(long queuePair);

    private static native String deviceName(long context);
}
