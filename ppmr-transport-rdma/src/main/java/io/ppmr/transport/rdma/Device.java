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
 * An open device. It has a name and a type, which the kernel shows in sysfs for any native library. Its asynchronous
 * events are available only with ppmr's own library. Librdmacm opens each device once for the whole process and never
 * closes it. For any thread.
 */
final class Device {
    private static final Logger LOG = LoggerFactory.getLogger(Device.class);
    private static final Path ROOT = Path.of("/");
    /** The number of concurrent reads that every common device supports. */
    private static final int DEFAULT_DEPTH = 16;

    private static final String CHANNEL_ADAPTER = "1:";
    private static final String IWARP = "4:";
    private static final long NO_EVENT = -1;

    private final long context;
    private final String name;
    private final String refusal;
    private volatile boolean supportsEvents = true;

    private Device(long context, String name, String refusal) {
        this.context = context;
        this.name = name;
        this.refusal = refusal;
    }

    static Device of(IbvContext context) throws IOException {
        long rdev = (Long) Files.getAttribute(Path.of("/proc/self/fd/" + context.getCmd_fd()), "unix:rdev");
        // In the layout of makedev(3).
        long major = (rdev >>> 8) & 0xFFF;
        long minor = (rdev & 0xFF) | ((rdev >>> 12) & 0xFFF00);
        Path shown = ROOT.resolve("sys/dev/char/" + major + ":" + minor + "/ibdev");
        String name = Files.readString(shown, StandardCharsets.US_ASCII).strip();
        return new Device(((NatIbvContext) context).getObjId(), name, refusal(ROOT, name));
    }

    /**
     * Returns the reason why a device of this type cannot be used; null if it can. With iWARP an RDMA Read needs memory
     * that the peer may also write, which this transport does not allow.
     *
     * @param root the parent of {@code sys}; {@code /} except in tests
     */
    static String refusal(Path root, String name) {
        String type;
        try {
            type = Files.readString(
                            root.resolve("sys/class/infiniband").resolve(name).resolve("node_type"),
                            StandardCharsets.US_ASCII)
                    .strip();
        } catch (IOException e) {
            return name + " has no readable type (" + e + ")";
        }
        if (type.startsWith(CHANNEL_ADAPTER)) {
            return null;
        }
        return name + " is " + (type.startsWith(IWARP) ? "an iWARP device" : "not a device of InfiniBand or RoCE")
                + " (its type is \"" + type + "\"), which RDMA here does not use";
    }

    String name() {
        return name;
    }

    /** Throws the reason if the device is neither InfiniBand nor RoCE. */
    void requireUsable() throws IOException {
        if (refusal != null) {
            throw new IOException(refusal);
        }
    }

    /** Logs each asynchronous event since the last call, by name. Never blocks; allocates only for events. */
    void logEvents() {
        if (!supportsEvents) {
            return;
        }
        try {
            for (long event = nextEvent(context); event != NO_EVENT; event = nextEvent(context)) {
                DeviceEvent.log(LOG, name, (int) event, (int) (event >>> 32));
            }
        } catch (UnsatisfiedLinkError e) {
            supportsEvents = false;
            LOG.info("the asynchronous events of {} are not available: this libdisni.so is not ppmr's own", name);
        }
    }

    /** Returns the number of concurrent reads of this queue pair, as negotiated when it was connected; 0 means none. */
    static int readsUnderWay(IbvQP queuePair) {
        try {
            int most = maxReadsUnderWay(((NatIbvQP) queuePair).getObjId());
            return most < 0 ? DEFAULT_DEPTH : most;
        } catch (UnsatisfiedLinkError e) {
            return DEFAULT_DEPTH;
        }
    }

    private static native int maxReadsUnderWay(long queuePair);

    private static native long nextEvent(long context);
}
