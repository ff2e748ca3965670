package io.ppmr.pods;

import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.part.MemberJobs;
import io.ppmr.migration.target.JobRestart;
import io.ppmr.protocol.control.CheckpointInterval;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * The pods of this node that belong to jobs over several nodes. It is immutable and safe for any thread. Each call
 * reads all records.
 *
 * @param pods the pods of this node
 */
record PodMembers(Pods pods) implements MemberJobs {
    @Override
    public List<MemberJob> here() throws IOException {
        Map<String, List<PodRecord>> jobs = new TreeMap<>();
        for (PodRecord pod : pods.running()) {
            if (pod.specification().members() > 0) {
                String job = Integer.toUnsignedString(pod.uid()) + "/"
                        + pod.specification().job();
                jobs.computeIfAbsent(job, unused -> new ArrayList<>()).add(pod);
            }
        }
        return jobs.values().stream().map(this::member).toList();
    }

    private MemberJob member(List<PodRecord> job) {
        PodRecord first = job.get(0);
        Set<String> names = new HashSet<>();
        Set<Optional<Path>> directories = new HashSet<>();
        Set<Optional<Path>> copies = new HashSet<>();
        for (PodRecord pod : job) {
            names.add(pod.name());
            directories.add(pods.template(pod.specification().template()).flatMap(PodTemplate::checkpoints));
            copies.add(pods.template(pod.specification().template()).flatMap(PodTemplate::copies));
        }
        return new MemberJob(
                new JobName(first.uid(), first.specification().job()),
                first.specification().members(),
                names,
                directories.size() == 1 ? directories.iterator().next() : Optional.empty(),
                copies.size() == 1 ? copies.iterator().next() : Optional.empty(),
                CheckpointInterval.parse(first.specification().checkpointEvery())
                        .orElse(CheckpointInterval.NONE),
                job.stream().anyMatch(PodRecord::moves),
                job.stream().allMatch(pod -> pods.template(pod.specification().template())
                        .filter(template -> template.onLoss() == PodTemplate.OnLoss.RECOVER)
                        .isPresent()));
    }

    @Override
    public Map<String, Set<String>> addresses(JobName job) throws IOException {
        Map<String, Set<String>> addresses = new TreeMap<>();
        for (PodRecord pod : pods.running()) {
            if (pod.specification().members() > 0
                    && pod.uid() == job.uid()
                    && pod.specification().job().equals(job.name())) {
                addresses.put(pod.name(), new TreeSet<>(pod.addresses().all()));
            }
        }
        return addresses;
    }

    @Override
    public Set<String> arriving(JobName job) throws IOException {
        return pods.arriving().stream()
                .filter(pod ->
                        pod.uid() == job.uid() && pod.specification().job().equals(job.name()))
                // The pods of a restart are known by the job's record.
                .filter(pod -> !JobRestart.isMove(pod.move().migration()))
                .map(PodRecord::name)
                .collect(Collectors.toSet());
    }

    @Override
    public List<Path> directories() {
        return directories(PodTemplate::checkpoints);
    }

    @Override
    public List<Path> copyDirectories() {
        return directories(PodTemplate::copies);
    }

    private List<Path> directories(Function<PodTemplate, Optional<Path>> which) {
        return pods.templates().stream()
                .map(which)
                .flatMap(Optional::stream)
                .distinct()
                .sorted()
                .toList();
    }

    @Override
    public boolean end(JobName job) throws IOException {
        return pods.endJob(job.uid(), job.name());
    }

    @Override
    public void onChange(Runnable changed) {
        pods.onChange(changed);
    }
}
