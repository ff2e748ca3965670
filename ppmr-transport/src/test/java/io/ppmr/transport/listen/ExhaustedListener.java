package io.ppmr.transport.listen;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.LoggerFactory;

/**
 * A program that listens without a free descriptor. It prints its port when descriptors are exhausted. Two seconds
 * later it prints its listener thread's processor time in them (ms). It frees the descriptors when it reads a line.
 */
final class ExhaustedListener {
    private static final long SETTLE_NS = TimeUnit.MILLISECONDS.toNanos(300);

    private ExhaustedListener() {}

    private static void takeAll(List<FileInputStream> all) {
        boolean more = true;
        while (more) {
            try {
                all.add(new FileInputStream("/dev/null"));
            } catch (IOException none) {
                more = false;
            }
        }
    }

    private static void park(long lengthNs) {
        long endNs = System.nanoTime() + lengthNs;
        while (System.nanoTime() - endNs < 0) {
            LockSupport.parkNanos(endNs - System.nanoTime());
        }
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(
                new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.US_ASCII);
        ServerSocketChannel server = AcceptLoopTest.bound();
        int port = ((InetSocketAddress) server.getLocalAddress()).getPort();
        // Classes that are loaded on demand would need descriptors.
        LoggerFactory.getLogger(ExhaustedListener.class).warn("it runs out of descriptors now");
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        AcceptLoop loop = new AcceptLoop(
                "exhausted",
                server,
                new AcceptLoop.ConnectionLimits(8, 8, Duration.ofMinutes(5)),
                AcceptLoopTest.Echo::new);
        long id = Arrays.stream(threads.getThreadInfo(threads.getAllThreadIds()))
                .filter(one -> one.getThreadName().equals("exhausted"))
                .findFirst()
                .orElseThrow()
                .getThreadId();
        // A first connection is served before, because its classes are loaded from directories here and not from open
        // archives.
        try (SocketChannel first = SocketChannel.open(server.getLocalAddress())) {
            first.write(ByteBuffer.wrap(new byte[] {'?'}));
            // After that connection the listener returned its descriptor, which is used up with the others.
            if (first.read(ByteBuffer.allocate(1)) != 1 || first.read(ByteBuffer.allocate(1)) != -1) {
                throw new IOException("the listener does not answer its first connection, or does not close it");
            }
        }
        List<FileInputStream> all = new ArrayList<>();
        // Descriptors that other threads free a little later are used up, too.
        int before;
        do {
            before = all.size();
            takeAll(all);
            park(SETTLE_NS);
        } while (all.size() > before);
        out.println(port);
        long beforeNs = threads.getThreadCpuTime(id);
        park(TimeUnit.SECONDS.toNanos(2));
        out.println(TimeUnit.NANOSECONDS.toMillis(threads.getThreadCpuTime(id) - beforeNs));
        if (System.in.read() >= 0) {
            for (FileInputStream one : all) {
                one.close();
            }
        }
        while (System.in.read() >= 0) {
            LockSupport.parkNanos(1);
        }
        loop.close();
    }
}
