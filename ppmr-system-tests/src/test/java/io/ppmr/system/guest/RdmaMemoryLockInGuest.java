package io.ppmr.system.guest;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.transport.Transport;
import io.ppmr.transport.rdma.RdmaTransport;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A service that may not lock its pool: root ignores the limit, unless CAP_IPC_LOCK is taken from it. */
class RdmaMemoryLockInGuest {
    private static final int LIMIT_BYTES = 4 << 20;

    @Test
    void shouldNameTheLimitNeededWhenTheLockedMemoryIsTooLittle() throws Exception {
        List<String> words = new ArrayList<>(List.of(
                "prlimit",
                "--memlock=" + LIMIT_BYTES + ":" + LIMIT_BYTES,
                "setpriv",
                "--bounding-set=-ipc_lock",
                "--inh-caps=-ipc_lock",
                Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        words.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        words.addAll(List.of("-cp", System.getProperty("java.class.path"), Try.class.getName()));
        try (Transport.TransportListener listener = RdmaTransport.load(RdmaMode.READ)
                .listen(new BufferPool(new PoolGeometry(1 << 17, 64)), RdmaPair.target())) {
            words.add(String.valueOf(listener.port()));
            Process process =
                    new ProcessBuilder(words).redirectErrorStream(true).start();
            String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertTrue(process.waitFor(60, TimeUnit.SECONDS));
            assertEquals(0, process.exitValue(), said);
            assertTrue(said.contains("the pool (8388608 bytes) cannot be registered for RDMA"), said);
            assertTrue(said.contains("may lock " + LIMIT_BYTES + " bytes of memory and needs "), said);
            assertTrue(said.contains("LimitMEMLOCK=infinity"), said);
        }
    }

    /** Connects as a source would. */
    static final class Try {
        private Try() {}

        public static void main(String[] port) throws Exception {
            BufferPool pool = new BufferPool(new PoolGeometry(1 << 17, 64));
            try {
                RdmaTransport.load(RdmaMode.READ)
                        .connect(
                                pool,
                                new InetSocketAddress(RdmaPair.target(), Integer.parseInt(port[0])),
                                Duration.ofSeconds(20),
                                System.out::println)
                        .close();
            } catch (IOException e) {
                System.out.println(e.getMessage());
            }
        }
    }
}
