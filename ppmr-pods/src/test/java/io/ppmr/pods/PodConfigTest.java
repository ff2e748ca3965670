package io.ppmr.pods;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.config.SourceConfig;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PodConfigTest {
    private static final String WITHOUT = """
            mount = "mnt"
            key_file = "key"
            [target]
            address = "127.0.0.1:7411"
            """;

    @TempDir
    private Path folder;

    private PodConfig load(String text) throws Exception {
        KeyFile.create(folder.resolve("key"));
        SourceConfig read = SourceConfig.load(Files.writeString(folder.resolve("source.toml"), WITHOUT + text));
        return ((PodsPart.GrantedPods) read.parts().byName().get("pods")).config();
    }

    @Test
    void shouldOfferNoneWhenThereIsNoTemplate() throws Exception {
        assertTrue(load("").templates().isEmpty());
    }

    @Test
    void shouldReadWhatRootGrantsWhenItIsGood() throws Exception {
        PodConfig pods = load("""
                [pod_runtime]
                directory = "pods"
                program = ["/opt/crun", "--debug"]
                cgroups = "systemd"
                peers = ["node-07:7411", "[2001:db8::7]:7412"]
                [pods.mpi]
                bridge = "br0"
                prefix = 16
                network6 = "fd00:20::/64"
                gateway = "10.20.0.1"
                mac_prefix = "06:51"
                mtu = 9000
                shares = [
                    {user = 4711, first = "10.20.0.10", last = "10.20.1.19"},
                    {user = 4712, first = "10.20.2.0", last = "10.20.2.0"}]
                mounts = ["/usr"]
                writable_mounts = ["/home/"]
                tmp = "2g"
                shm = "3g"
                memory = "64g"
                tasks = 4096
                [pods.small]
                bridge = "br0"
                shares = [{user = 4711, first = "10.20.3.10", last = "10.20.3.10"}]
                """);
        assertEquals(
                new PodSettings(
                        folder.resolve("pods"),
                        List.of("/opt/crun", "--debug"),
                        PodSettings.Cgroups.SYSTEMD,
                        List.of("node-07:7411", "[2001:db8::7]:7412")),
                pods.settings());
        PodTemplate mpi = pods.templates().get("mpi");
        assertEquals(
                List.of(4711, 4712),
                mpi.shares().stream().map(PodTemplate.Share::uid).toList());
        assertEquals("10.20.0.1", mpi.network().gateway().orElseThrow().toString());
        assertEquals("fd00:20::/64", mpi.network().network6().orElseThrow().toString());
        assertEquals(
                List.of(16, 9000), List.of(mpi.network().prefix(), mpi.network().mtu()));
        assertEquals(
                List.of(2L << 30, 3L << 30),
                List.of(mpi.limits().tmp(), mpi.limits().shm()));
        assertEquals(Optional.of(64L << 30), mpi.limits().memory());
        assertEquals(Optional.of(4096), mpi.limits().tasks());
        assertEquals(List.of("/usr", "/home"), mpi.mounts().all(), "as the kernel and CRIU name them");
        PodTemplate small = pods.templates().get("small");
        assertEquals("02:50", small.network().macPrefix());
        assertFalse(small.mounts().mounts().isEmpty());
        assertEquals(Optional.empty(), small.limits().memory());
        assertEquals(Optional.empty(), small.network().network6());
    }
}
