package io.ppmr.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.SiteCommand;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * The commands by which a job's own library is told to stand still and to go on (papers 2 and 3: suspend drains and
 * closes
 * its endpoints, reconnect opens them to where the ranks are now). Each runs as the job's user, to its deadline.
 *
 * @param suspend before the first checkpoint: all ranks stop communicating, also those that stay
 * @param resume undoes it when the migration is called off
 * @param reconnect after the commit: is told where every rank is
 */
public record JobHooks(Optional<SiteCommand> suspend, Optional<SiteCommand> resume, Optional<SiteCommand> reconnect) {
    /** A job that needs none. */
    public static final JobHooks NONE = new JobHooks(Optional.empty(), Optional.empty(), Optional.empty());

    /** Runs a hook, if the job has it; throws if it fails. */
    static void run(
            Optional<SiteCommand> hook, String migrationId, JobNotes job, Path workDirectory, NativePrograms programs)
            throws CheckpointException {
        if (hook.isPresent()) {
            hook.get().run(environment(migrationId, job), workDirectory, programs);
        }
    }

    /**
     * Runs the reconnect hook, if the job has it. {@code PPMR_MAP} names a file with a line "rank node" for each rank;
     * {@code PPMR_SHARED} says which ranks share a node, "node:rank,rank" each.
     */
    static void reconnect(
            String migrationId, JobNotes job, Map<Integer, String> moved, Path workDirectory, NativePrograms programs)
            throws CheckpointException, IOException {
        Optional<SiteCommand> hook = job.hooks().reconnect();
        if (hook.isEmpty()) {
            return;
        }
        Map<Integer, String> places = new TreeMap<>(job.others());
        places.putAll(moved);
        Files.createDirectories(workDirectory);
        Path map = workDirectory.resolve("map");
        List<String> lines = places.entrySet().stream()
                .map(place -> place.getKey() + " " + place.getValue())
                .toList();
        Files.write(map, lines);
        Files.setPosixFilePermissions(map, PosixFilePermissions.fromString("rw-r--r--"));
        Map<String, String> environment = environment(migrationId, job);
        environment.put("PPMR_MAP", map.toString());
        environment.put("PPMR_SHARED", shared(places));
        hook.get().run(environment, workDirectory, programs);
    }

    private static Map<String, String> environment(String migrationId, JobNotes job) {
        Map<String, String> environment = new HashMap<>();
        environment.put("PPMR_MIGRATION", migrationId);
        environment.put("PPMR_JOB", job.name());
        environment.put("PPMR_RANKS", job.ranks().stream().map(String::valueOf).collect(Collectors.joining(" ")));
        return environment;
    }

    private static String shared(Map<Integer, String> places) {
        Map<String, String> byNode = new TreeMap<>();
        places.forEach((rank, node) -> byNode.merge(node, Integer.toString(rank), (a, b) -> a + "," + b));
        return byNode.entrySet().stream()
                .map(node -> node.getKey() + ":" + node.getValue())
                .collect(Collectors.joining(" "));
    }
}
