package io.ppmr.cluster.controller;

import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobTable.RestartFacts;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.IntStream;

/**
 * Makes the plan of a job's restart: which node restores which pods. It queries services if pods of the job still run,
 * and
 * which images they can read. One worker of the controller uses it.
 */
final class RestartPlan {
    private static final String SOURCE = "source";
    private static final String TARGET = "target";
    /** The most pages of a node's images: those of the largest job have fewer. */
    private static final int MOST_PAGES = 100;

    private final JobName job;
    private final RestartFacts facts;
    private final AskedServices services;

    RestartPlan(JobName job, RestartFacts facts, AskedServices services) {
        this.job = job;
        this.facts = facts;
        this.services = services;
    }

    /**
     * Returns the pods that each node restores.
     *
     * @param hosts the nodes; empty for those where the pods were
     * @param here the node on which the restart is ordered
     */
    Map<String, Set<String>> make(List<String> hosts, String here)
            throws RequestException, IOException, InterruptedException {
        if (facts.set().isEmpty()) {
            throw new RequestException(
                    "job " + job + " has no such set. Remedy: ppmr job show " + job.name() + " lists its sets");
        }
        requireNothingRuns();
        boolean isWhole = facts.places().values().stream().mapToInt(Set::size).sum() == facts.members();
        Map<String, Set<String>> before = hosts.isEmpty() && !isWhole ? placesOfImages(here) : facts.places();
        List<String> wanted = hosts.isEmpty() ? List.copyOf(new TreeSet<>(before.keySet())) : hosts;
        Map<String, Map<String, String>> readable = images(wanted);
        Map<String, Set<String>> plan = hosts.isEmpty() ? before : spread(wanted, readable);
        Map<String, String> digests = new TreeMap<>();
        for (Map.Entry<String, Set<String>> node : plan.entrySet()) {
            Map<String, String> there = readable.get(node.getKey());
            for (String pod : node.getValue()) {
                String digest = there.get(pod);
                if (digest == null) {
                    throw new RequestException("node " + node.getKey() + " cannot read the image of pod " + pod
                            + " in set " + facts.set().get().id()
                            + ". Remedy: name nodes that see the directory of checkpoints (--on)");
                }
                digests.put(pod, word(digest, 0));
            }
        }
        if (digests.size() != facts.members()) {
            throw new RequestException("set " + facts.set().get().id() + " is of " + digests.size() + " pods, and job "
                    + job + " has " + facts.members() + ". Remedy: name nodes that see all its images (--on)");
        }
        if (!facts.set().get().isOf(digests)) {
            throw new RequestException("the images of set " + facts.set().get().id()
                    + " are not those that were recorded: they were exchanged, or are of another job. Remedy: restart"
                    + " from another set (--set)");
        }
        return plan;
    }

    /** Returns the places of pods that ended: their images have the names of the nodes. */
    private Map<String, Set<String>> placesOfImages(String here) throws RequestException, InterruptedException {
        Map<String, Set<String>> places = new TreeMap<>();
        images(List.of(here)).get(here).forEach((pod, image) -> places.computeIfAbsent(
                        word(image, 1), node -> new TreeSet<>())
                .add(pod));
        if (places.isEmpty()) {
            throw new RequestException("no pod of job " + job + " runs, and node " + here + " sees no image of set "
                    + facts.set().orElseThrow().id() + ". Remedy: name the nodes (--on)");
        }
        return places;
    }

    private static String word(String text, int number) {
        String[] words = text.split(" ", -1);
        return number < words.length ? words[number] : "";
    }

    /** A pod of the job that still runs, or may be released, would compute twice. */
    private void requireNothingRuns() throws RequestException, IOException, InterruptedException {
        for (String host : new TreeSet<>(facts.places().keySet())) {
            requireNothingRuns(host, SOURCE);
        }
        for (String host : new TreeSet<>(facts.plan().keySet())) {
            requireNothingRuns(host, TARGET);
        }
    }

    private void requireNothingRuns(String host, String role)
            throws RequestException, IOException, InterruptedException {
        if (!services.isOff(host)) {
            JobQuestion.Answer answer;
            try {
                answer = services.ask(host, role, new JobQuestion.FindPods(job));
            } catch (IOException e) {
                throw new RequestException(
                        "it is unknown if pods of job " + job + " still run on node " + host + ": " + e.getMessage()
                                + ". Remedy: start its services; or end the node, then ppmr nodes off " + host,
                        e);
            }
            Optional<String> running = answer.pods() == null
                    ? Optional.empty()
                    : answer.pods().keySet().stream().sorted().findFirst();
            if (answer.refusal() != null) {
                throw new RequestException(
                        "it is unknown if pods of job " + job + " still run on node " + host + ": " + answer.refusal());
            }
            if (running.isPresent() && role.equals(TARGET)) {
                throw new RequestException("the last restart of job " + job + " is not over on node " + host
                        + ": its pods are held, or released now. Remedy: wait until ppmr job show has no restart under"
                        + " way, then stop the job (ppmr pod stop)");
            }
            if (running.isPresent()) {
                throw new RequestException("pod " + running.get() + " of job " + job + " runs on node " + host
                        + ". Remedy: stop the job first (ppmr pod stop)");
            }
        }
    }

    private Map<String, Map<String, String>> images(List<String> hosts) throws RequestException, InterruptedException {
        Map<String, Map<String, String>> readable = new TreeMap<>();
        for (String host : hosts) {
            try {
                readable.put(host, images(host));
            } catch (IOException e) {
                throw new RequestException(
                        "the target of node " + host + " does not answer: " + e.getMessage()
                                + ". Remedy: start it, or name other nodes (--on)",
                        e);
            }
        }
        return readable;
    }

    /** Requests all pages of a node's images. */
    private Map<String, String> images(String host) throws RequestException, IOException, InterruptedException {
        String set = facts.set().orElseThrow().id();
        Map<String, String> images = new TreeMap<>();
        String after = null;
        for (int page = 0; page < MOST_PAGES; page++) {
            JobQuestion.Answer answer = services.ask(host, TARGET, new JobQuestion.FindImages(job, set, after));
            if (answer.refusal() != null) {
                throw new RequestException("node " + host + ": " + answer.refusal());
            }
            images.putAll(answer.pods() == null ? Map.of() : answer.pods());
            if (answer.next() == null) {
                return images;
            }
            after = answer.next();
        }
        throw new IOException("its list of images does not end within " + MOST_PAGES + " pages");
    }

    /** Keeps pods together that were on one node, as far as the nodes can read their images. */
    private Map<String, Set<String>> spread(List<String> hosts, Map<String, Map<String, String>> readable)
            throws RequestException {
        List<Set<String>> groups = new ArrayList<>(new TreeMap<>(facts.places()).values());
        Set<String> all = new TreeSet<>();
        readable.values().forEach(images -> all.addAll(images.keySet()));
        groups.forEach(all::removeAll);
        // Pods that ended before the others are recorded on no node.
        all.forEach(pod -> groups.add(Set.of(pod)));
        Map<String, Set<String>> plan = new TreeMap<>();
        int next = 0;
        for (Set<String> group : groups) {
            for (String pod : new TreeSet<>(group)) {
                int first = next;
                Optional<String> host = IntStream.range(0, hosts.size())
                        .mapToObj(i -> hosts.get((first + i) % hosts.size()))
                        .filter(one -> readable.get(one).containsKey(pod))
                        .findFirst();
                if (host.isEmpty()) {
                    throw new RequestException("none of the nodes " + String.join(", ", hosts)
                            + " can read the image of pod " + pod + " in set "
                            + facts.set().orElseThrow().id()
                            + ". Remedy: name nodes that see the directory of checkpoints (--on)");
                }
                plan.computeIfAbsent(host.get(), unused -> new TreeSet<>()).add(pod);
            }
            next++;
        }
        return plan;
    }
}
