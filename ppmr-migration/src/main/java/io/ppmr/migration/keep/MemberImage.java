package io.ppmr.migration.keep;

import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.control.PodSpecification;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The lines of an image's manifest about a pod of a job over several nodes. Immutable.
 *
 * @param set the set that the image belongs to
 * @param incarnation the incarnation of the job
 * @param pod the pod
 * @param files the node's files that it had open for writing
 * @param stopped its processes that the job itself had stopped, which a restart does not continue
 */
public record MemberImage(
        String set, long incarnation, PodFacts pod, List<WrittenFile> files, Optional<StoppedProcesses> stopped) {
    private static final int FACTS = 13;
    private static final int FIRST_NUMBER = 3;

    /**
     * A file of the node that the pod had open for writing.
     *
     * @param path its path
     * @param sizeBytes its size when the pod was held
     */
    public record WrittenFile(String path, long sizeBytes) {}

    public MemberImage {
        files = List.copyOf(files);
    }

    /** Returns the lines of a manifest, each as its words. */
    List<List<String>> lines() {
        List<List<String>> lines = new ArrayList<>();
        PodSpecification specification = pod.specification();
        PodAddresses addresses = pod.addresses();
        lines.add(List.of("set", set, Long.toString(incarnation)));
        lines.add(List.of(
                "pod",
                specification.name(),
                specification.job(),
                specification.template(),
                Integer.toString(specification.members()),
                Integer.toString(pod.uid()),
                Integer.toString(pod.gid()),
                addresses.address(),
                addresses.address6(),
                addresses.mac(),
                Integer.toString(pod.prefixBits()),
                Integer.toString(pod.mtuBytes()),
                Long.toString(pod.startedAtMs()),
                specification.checkpointEvery()));
        specification.environment().forEach(variable -> lines.add(List.of("environment", variable)));
        specification.command().forEach(word -> lines.add(List.of("command", word)));
        pod.mounts().forEach(mount -> lines.add(List.of("mount", mount)));
        files.forEach(file -> lines.add(List.of("open", file.path(), Long.toString(file.sizeBytes()))));
        stopped.ifPresent(
                some -> lines.add(List.of("stopped", text(some.pids()), text(some.parents()), text(some.stopped()))));
        return lines;
    }

    private static String text(List<Integer> numbers) {
        return numbers.stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    private static List<Integer> numbers(String text) {
        return Stream.of(text.split(",", -1)).map(Integer::valueOf).toList();
    }

    /** Reads these lines again. */
    static final class MemberLines {
        private final List<String> environment = new ArrayList<>();
        private final List<String> command = new ArrayList<>();
        private final List<String> mounts = new ArrayList<>();
        private final List<WrittenFile> files = new ArrayList<>();
        private List<String> facts = List.of();
        private List<String> set = List.of();
        private Optional<StoppedProcesses> stopped = Optional.empty();

        /** Notes the words of a line. Throws {@link IllegalArgumentException} for an invalid one. */
        void add(List<String> words) {
            switch (words.get(0)) {
                case "environment" -> environment.add(words.get(1));
                case "command" -> command.add(words.get(1));
                case "mount" -> mounts.add(words.get(1));
                case "open" -> files.add(new WrittenFile(words.get(1), Long.parseLong(words.get(2))));
                case "set" -> set = words;
                case "stopped" ->
                    stopped = Optional.of(new StoppedProcesses(
                            numbers(words.get(1)), numbers(words.get(2)), numbers(words.get(FIRST_NUMBER))));
                default -> {
                    if (!facts.isEmpty() || words.size() != FACTS + 1) {
                        throw new IllegalArgumentException("invalid entry: a pod");
                    }
                    facts = words;
                }
            }
        }

        /** Returns the pod, if there were such lines. */
        Optional<MemberImage> end() {
            if (facts.isEmpty()) {
                return Optional.empty();
            }
            List<String> f = facts.subList(1, facts.size());
            PodSpecification specification = new PodSpecification(
                    f.get(0),
                    f.get(1),
                    f.get(2),
                    environment,
                    command,
                    Integer.parseInt(f.get(FIRST_NUMBER)),
                    f.get(12));
            PodFacts pod = new PodFacts(
                    specification,
                    Integer.parseInt(f.get(4)),
                    Integer.parseInt(f.get(5)),
                    new PodAddresses(f.get(6), f.get(7), f.get(8)),
                    Integer.parseInt(f.get(9)),
                    Integer.parseInt(f.get(10)),
                    mounts,
                    Long.parseLong(f.get(11)),
                    false);
            return Optional.of(new MemberImage(set.get(1), Long.parseLong(set.get(2)), pod, files, stopped));
        }
    }
}
