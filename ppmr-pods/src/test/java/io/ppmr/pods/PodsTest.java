package io.ppmr.pods;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.transport.auth.PreSharedKey;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The folders of pods without running processes. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodsTest {
    private static final int ROUNDS = 40;
    private static final int FILES = 100;
    private static final int KEY_BYTES = 32;

    @TempDir
    Path directory;

    /** Pods of a service of its own. */
    private Pods pods() {
        return new Pods(
                Map.of(),
                new PodSettings(directory, List.of("crun"), PodSettings.Cgroups.DISABLED, List.of()),
                NativePrograms.fromSystemProperty(),
                Map.of(),
                new PreSharedKey(new byte[KEY_BYTES]));
    }

    private Path make(PodRecord pod) throws Exception {
        Path folder = Files.createDirectory(directory.resolve(".new-a"));
        for (String inside : List.of("root", "other")) {
            Path place = Files.createDirectories(folder.resolve(inside).resolve("deep"));
            for (int i = 0; i < FILES; i++) {
                Files.createFile(place.resolve("file-" + i));
            }
        }
        pod.write(folder);
        return Files.move(folder, directory.resolve(pod.id()));
    }

    private static PodRecord pod() {
        return new PodRecord(
                new PodSpecification("a", null, "mpi", List.of(), List.of("x")),
                1,
                1,
                new PodAddresses("10.20.0.12", "", "02:50:0a:14:00:0c"),
                "br0",
                "ppmr0a14000c",
                List.of(),
                0,
                null,
                false,
                0,
                null);
    }

    private List<Path> left() throws Exception {
        try (Stream<Path> all = Files.list(directory)) {
            return all.toList();
        }
    }

    @Test
    void shouldBeRemovedOnceWhenOthersLookAtAllPodsMeanwhile() throws Exception {
        AtomicBoolean over = new AtomicBoolean();
        List<CompletableFuture<Void>> lookers = new ArrayList<>();
        for (Pods service : List.of(pods(), pods(), pods())) {
            lookers.add(CompletableFuture.runAsync(() -> {
                while (!over.get()) {
                    try {
                        service.records();
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                }
            }));
        }
        Pods remover = pods();
        for (int round = 0; round < ROUNDS; round++) {
            remover.remove(make(pod()), pod());
            assertEquals(List.of(), left());
        }
        over.set(true);
        for (CompletableFuture<Void> looker : lookers) {
            looker.get(60, TimeUnit.SECONDS);
        }
    }

    @Test
    void shouldBeTakenAwayWhenAServiceDiedWhileItMadeOrRemovedThem() throws Exception {
        make(pod());
        Path made = Files.createDirectory(directory.resolve(".new-1"));
        Path removed = Files.createDirectory(directory.resolve(".gone-1"));
        Files.createFile(removed.resolve("file"));
        pods().records();
        assertEquals(3, left().size(), "somebody works on them, perhaps");
        for (Path old : List.of(made, removed)) {
            Files.setLastModifiedTime(old, FileTime.from(Instant.now().minus(Duration.ofMinutes(5))));
        }
        assertEquals(List.of(pod()), pods().records());
        assertEquals(List.of(directory.resolve(pod().id())), left());
    }
}
