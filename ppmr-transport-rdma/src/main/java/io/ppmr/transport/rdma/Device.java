package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvContext;
import com.ibm.disni.verbs.IbvQP;
import com.ibm.disni.verbs.impl.NatIbvContext;
import com.ibm.disni.verbs.impl.NatIbvQP;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An open device: its name and its type, which the kernel shows in sysfs whichever native library is used, and its
 * asynchronous events, which only our own library gives. Librdmacm opens each device once for the whole process and
 * never closes it. For any thread.
 */
final class Device {
    private static final Logger LOG = LoggerFactory.getLogger(Device.class);
    private static final Path ROOT = Path.of("/");
    /** The reads that every device of the last fifteen years can have under way. */
    private static final int CAREFUL_DEPTH = 16;

    private static final String CHANNEL_ADAPTER = "1:";
    private static final String IWARP = "4:";
    private static final long NO_EVENT = -1;

    private final long context;
    private final String name;
    private final String refusal;
    private volatile boolean tellsEvents = true;

    private Device(long context, String name, String refusal) {
        this.context = context;
        this.name = name;
        this.refusal = refusal;
    }

    static Device of(IbvContext context) throws IOException {
        long rdev = (Long) Files.getAttribute(Path.of("/proc/self/fd/" + context.getCmd_fd()), "unix:rdev");
        // As makedev(3) lays out a number.
        long major = (rdev >>> 8) & 0xFFF;
        long minor = (rdev & 0xFF) | ((rdev >>> 12) & 0xFFF00);
        Path shown = ROOT.resolve("sys/dev/char/" + major + ":" + minor + "/ibdev");
        String name = Files.readString(shown, StandardCharsets.US_ASCII).strip();
        return new Device(((NatIbvContext) context).getObjId(), name, refusal(ROOT, name));
    }

    /**
     * Returns why a device of this name cannot be used, by its type; null if it can. By iWARP a read lands only in
     * memory that the peer may write as well, and ours may not be written.
     *
     * @param root where {@code sys} is; {@code /} but in tests
     */
    static String refusal(Path root, String name) {
        String type;
        try {
            type = Files.readString(
                            root.resolve("sys/class/infiniband").resolve(name).resolve("node_type"),
                            StandardCharsets.US_ASCII)
                    .strip();
        } catch (IOException e) {
            return name + " has no type that can be read (" + e + ")";
        }
        if (type.startsWith(CHANNEL_ADAPTER)) {
            return null;
        }
        return name + " is " + (type.startsWith(IWARP) ? "an iWARP device" : "no device of InfiniBand or RoCE")
                + " (its type is \"" + type + "\"), which RDMA here does not use";
    }

    String name() {
        return name;
    }

    /** Throws the reason if this is no device of InfiniBand or RoCE. */
    void requireUsable() throws IOException {
        if (refusal != null) {
            throw new IOException(refusal);
        }
    }

    /** Logs each asynchronous event since the last look, by name. Never waits; allocates only for events. */
    void logEvents() {
        if (!tellsEvents) {
            return;
        }
        try {
            for (long event = nextEvent(context); event != NO_EVENT; event = nextEvent(context)) {
                DeviceEvent.log(LOG, name, (int) event, (int) (event >>> 32));
            }
        } catch (UnsatisfiedLinkError e) {
            tellsEvents = false;
            LOG.info("the asynchronous events of {} are not read: this libdisni.so is not ppmr's own", name);
        }
    }

    /** Gives the reads that this queue pair may have under way, as negotiated when it was connected; 0 is none. */
    static int readsUnderWay(IbvQP queuePair) {
        try {
            int most = maxReadsUnderWay(((NatIbvQP) queuePair).getObjId());
            return most < 0 ? CAREFUL_DEPTH : most;
        } catch (UnsatisfiedLinkError e) {
            return CAREFUL_DEPTH;
        }
    }

    private static native int maxReadsUnderWay(long queuePair);

    private static native long nextEvent(long context);
}
