package io.ppmr.cluster.controller;

import io.ppmr.cluster.controller.ServiceQuestions.Answered;
import io.ppmr.cluster.controller.ServiceQuestions.QueriedService;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobQuestion.ImagePlaces;
import io.ppmr.cluster.job.JobTable;
import io.ppmr.cluster.job.JobTable.RestartFacts;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes the plan of a job's restart: which node restores which pods. It queries services if pods of the job still run,
 * and
 * which images they can read. One worker of the controller uses it.
 */
final class RestartPlan {
    private static final Logger LOG = LoggerFactory.getLogger(RestartPlan.class);
    private static final String SOURCE = "source";
    private static final String TARGET = "target";

    private final JobName job;
    private final RestartFacts facts;
    private final QueriedCluster services;
    private final Set<String> awayOff;
    private final boolean mayRun;
    private final ImageLists lists;

    /**
     * Makes a planner.
     *
     * @param awayOff nodes, or addresses of targets, on which no pod of the job runs by an operator's confirmation
     * @param mayRun whether pods may run on nodes of the record, which are ended first: a recovery
     */
    RestartPlan(JobName job, RestartFacts facts, QueriedCluster services, Set<String> awayOff, boolean mayRun) {
        this.job = job;
        this.facts = facts;
        this.awayOff = Set.copyOf(awayOff);
        this.services = services;
        this.mayRun = mayRun;
        this.lists = new ImageLists(job, services);
    }

    /**
     * Returns the pods that each node restores in a recovery: living nodes keep theirs, and spares take the others.
     *
     * @param here a node that may see all images, for a job of which nothing runs
     * @param avoided spare nodes that are taken only if there is no other one
     */
    Map<String, Set<String>> recover(String here, Set<String> avoided)
            throws RequestException, IOException, InterruptedException {
        requireSet();
        requireNothingRuns();
        Map<String, String> homes = new TreeMap<>();
        for (Map.Entry<String, Set<String>> place : facts.places().entrySet()) {
            if (!services.isOff(place.getKey())) {
                place.getValue().forEach(pod -> homes.put(pod, place.getKey()));
            }
        }
        Set<String> living = new TreeSet<>(homes.values());
        Map<String, Map<String, String>> readable = new TreeMap<>(nearImages(homes, living));
        if (homes.size() < facts.members()) {
            addHomesOfImages(here, homes, readable);
        }
        if (homes.size() < facts.members()) {
            addSpares(homes, readable, avoided);
        }
        Map<String, Set<String>> plan = new TreeMap<>();
        homes.forEach((pod, host) ->
                plan.computeIfAbsent(host, unused -> new TreeSet<>()).add(pod));
        try {
            requireImages(plan, readable);
        } catch (RequestException e) {
            // An image that was exchanged, or is damaged, may be right at the second place.
            LOG.warn("job {}: images are compared at the second place: {}", job, e.getMessage());
            requireImages(plan, images(List.copyOf(plan.keySet()), ImagePlaces.COPIES));
        }
        for (Map.Entry<String, Set<String>> node : plan.entrySet()) {
            requireFit(node.getKey(), node.getValue(), !living.contains(node.getKey()));
        }
        return plan;
    }

    /** Living nodes read their own disks. Only one whose images are not all there looks at the copies. */
    private Map<String, Map<String, String>> nearImages(Map<String, String> homes, Set<String> living)
            throws RequestException, InterruptedException {
        Map<String, Map<String, String>> readable = new TreeMap<>();
        Set<String> incomplete = new TreeSet<>();
        for (String host : living) {
            try {
                readable.put(host, images(host, ImagePlaces.NEAR));
            } catch (IOException | RequestException e) {
                LOG.warn("job {}: node {} does not read its own images: {}", job, host, e.getMessage());
                readable.put(host, Map.of());
            }
        }
        homes.forEach((pod, host) -> {
            if (!readable.get(host).containsKey(pod)) {
                incomplete.add(host);
            }
        });
        readable.putAll(images(List.copyOf(incomplete), ImagePlaces.ALL));
        return readable;
    }

    /** Pods that ended on living nodes are restored where their images were written. */
    private void addHomesOfImages(String here, Map<String, String> homes, Map<String, Map<String, String>> readable)
            throws RequestException, InterruptedException, IOException {
        Map<String, Set<String>> present = services.present();
        if (readable.isEmpty() && present.getOrDefault(here, Set.of()).contains(TARGET)) {
            readable.putAll(images(List.of(here)));
        }
        Map<String, String> known = new TreeMap<>();
        readable.values().forEach(known::putAll);
        for (Map.Entry<String, String> image : known.entrySet()) {
            String writer = word(image.getValue(), 1);
            boolean isThere = present.getOrDefault(writer, Set.of()).contains(TARGET);
            if (!homes.containsKey(image.getKey()) && isThere) {
                if (!readable.containsKey(writer)) {
                    readable.putAll(images(List.of(writer)));
                }
                if (readable.get(writer).containsKey(image.getKey())) {
                    homes.put(image.getKey(), writer);
                }
            }
        }
    }

    /** Lost pods go to spares that can read their images, as many as fit on each. */
    private void addSpares(Map<String, String> homes, Map<String, Map<String, String>> readable, Set<String> avoided)
            throws RequestException, IOException, InterruptedException {
        List<String> failures = new ArrayList<>();
        List<String> spares = new ArrayList<>(services.spares(new TreeSet<>(homes.values())));
        spares.sort(Comparator.comparing(avoided::contains));
        for (String spare : spares) {
            try {
                readable.put(spare, images(spare, ImagePlaces.ALL));
            } catch (IOException | RequestException e) {
                LOG.info("job {}: node {} is no spare: {}", job, spare, e.getMessage());
                failures.add(spare + ": " + e.getMessage());
                readable.put(spare, Map.of());
            }
        }
        Set<String> lost = new TreeSet<>();
        readable.values().forEach(images -> lost.addAll(images.keySet()));
        lost.removeAll(homes.keySet());
        for (String pod : lost) {
            Optional<String> spare = spares.stream()
                    .filter(one -> readable.get(one).containsKey(pod))
                    .filter(one -> homes.values().stream().filter(one::equals).count() < JobTable.MOST_PODS_OF_A_NODE)
                    .findFirst();
            if (spare.isEmpty()) {
                requireAnswers(failures);
                throw new UnreadableSetException("no spare node can read the image of pod " + pod + " in set "
                        + facts.set().orElseThrow().id() + ": asked were "
                        + (spares.isEmpty() ? "none" : String.join(", ", spares))
                        + ". Remedy: start a target that sees the directory of checkpoints");
            }
            homes.put(pod, spare.get());
        }
        if (homes.size() < facts.members()) {
            requireAnswers(failures);
            Set<String> missing = new TreeSet<>();
            facts.places().values().forEach(missing::addAll);
            missing.removeAll(homes.keySet());
            throw new UnreadableSetException("no spare node can read the image of "
                    + (missing.isEmpty() ? "a pod that ended" : "pod " + String.join(", ", missing)) + " in set "
                    + facts.set().orElseThrow().id() + ": queried were "
                    + (spares.isEmpty() ? "none" : String.join(", ", spares))
                    + ". Remedy: start a target that sees the directory of checkpoints, or of copies");
        }
    }

    /** Images that a node cannot show now may be there. An older set would cost work that is not lost. */
    private static void requireAnswers(List<String> failures) throws RequestException {
        if (!failures.isEmpty()) {
            throw new RequestException("spare nodes do not show which images they can read: "
                    + String.join("; ", failures)
                    + ". Remedy: order it again; or mend the directory of checkpoints or copies there; or name an older"
                    + " set (--set)");
        }
    }

    private void requireFit(String host, Set<String> pods, boolean isSpare)
            throws RequestException, InterruptedException {
        JobQuestion.Answer answer;
        try {
            answer = services.ask(
                    host,
                    TARGET,
                    new JobQuestion.FindFit(job, facts.set().orElseThrow().id(), pods, isSpare));
        } catch (IOException e) {
            throw new RequestException(
                    "the target of node " + host + " does not answer: " + e.getMessage() + ". Remedy: start it", e);
        }
        if (answer.refusal() != null) {
            throw new RequestException("node " + host + ": " + answer.refusal());
        }
    }

    /** The images of the set cannot all be read. Those of an older one perhaps can. */
    static final class UnreadableSetException extends RequestException {
        UnreadableSetException(String reason) {
            super(reason);
        }
    }

    private void requireSet() throws RequestException {
        if (facts.set().isEmpty()) {
            throw new RequestException(
                    "job " + job + " has no such set. Remedy: ppmr job show " + job.name() + " lists its sets");
        }
    }

    /**
     * Returns the pods that each node restores.
     *
     * @param hosts the nodes; empty for those where the pods were
     * @param here the node on which the restart is ordered
     */
    Map<String, Set<String>> make(List<String> hosts, String here)
            throws RequestException, IOException, InterruptedException {
        requireSet();
        requireNothingRuns();
        boolean isWhole = facts.places().values().stream().mapToInt(Set::size).sum() == facts.members();
        Map<String, Set<String>> before = hosts.isEmpty() && !isWhole ? placesOfImages(here) : facts.places();
        List<String> wanted = hosts.isEmpty() ? List.copyOf(new TreeSet<>(before.keySet())) : hosts;
        Map<String, Map<String, String>> readable = images(wanted);
        Map<String, Set<String>> plan = hosts.isEmpty() ? before : spread(wanted, readable);
        requireImages(plan, readable);
        return plan;
    }

    private void requireImages(Map<String, Set<String>> plan, Map<String, Map<String, String>> readable)
            throws RequestException {
        Map<String, String> digests = new TreeMap<>();
        for (Map.Entry<String, Set<String>> node : plan.entrySet()) {
            Map<String, String> there = readable.get(node.getKey());
            for (String pod : node.getValue()) {
                String digest = there.get(pod);
                if (digest == null) {
                    throw new UnreadableSetException("node " + node.getKey() + " cannot read the image of pod " + pod
                            + " in set " + facts.set().get().id()
                            + ". Remedy: name nodes that see the directory of checkpoints (--on)");
                }
                digests.put(pod, ImageLists.digestOf(digest));
            }
        }
        if (digests.size() != facts.members()) {
            throw new UnreadableSetException(
                    "set " + facts.set().get().id() + " is of " + digests.size() + " pods, and job " + job + " has "
                            + facts.members() + ". Remedy: name nodes that see all its images (--on)");
        }
        if (!facts.set().get().isOf(digests)) {
            throw new UnreadableSetException(
                    "the images of set " + facts.set().get().id()
                            + " are not those that were recorded: they were exchanged, or are of another job. Remedy:"
                            + " restart from another set (--set)");
        }
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
    void requireNothingRuns() throws RequestException, IOException, InterruptedException {
        if (!facts.moves().isEmpty()) {
            throw new RequestException("pods of job " + job + " are being moved from node "
                    + facts.moves().get(0) + ". Remedy: wait for the end of the migration");
        }
        Map<String, Set<String>> present = services.present();
        Set<QueriedService> recorded = new TreeSet<>();
        boolean isUncertain = facts.uncertain();
        // A node counts as off only if it was before the first question.
        for (String host : facts.places().keySet()) {
            boolean isOff = services.isOff(host);
            // It cannot answer if it has moved its pods, which was not recorded.
            isUncertain |= isOff;
            if (!isOff) {
                recorded.add(new QueriedService(host, SOURCE));
            }
        }
        for (String host : facts.plan().keySet()) {
            if (!services.isOff(host)) {
                recorded.add(new QueriedService(host, TARGET));
            }
        }
        Set<QueriedService> all = new TreeSet<>(recorded);
        present.forEach((host, roles) -> {
            if (!roles.isEmpty()) {
                all.add(new QueriedService(host, roles.contains(SOURCE) ? SOURCE : TARGET));
            }
        });
        Map<QueriedService, Answered> answers = new ServiceQuestions(services).ask(all, new JobQuestion.FindPods(job));
        for (QueriedService service : all) {
            Answered answered = answers.get(service);
            if (answered.failure().isPresent() && recorded.contains(service)) {
                throw new RequestException("it is unknown if pods of job " + job + " still run on node "
                        + service.host() + ": " + answered.failure().get()
                        + ". Remedy: start its services; or end the node, then type on the active controller's node:"
                        + " ppmr nodes off " + service.host());
            }
            isUncertain |= requireNothingRuns(service, answered.pods(), present.keySet());
        }
        if (isUncertain) {
            requireEachAnswers(present.keySet(), answers);
        }
    }

    /** Returns true if pods were moved from the service's node to one that has none by an operator's confirmation. */
    private boolean requireNothingRuns(QueriedService service, Map<String, String> pods, Set<String> present)
            throws RequestException, IOException, InterruptedException {
        boolean wasMoved = false;
        for (Map.Entry<String, String> pod : new TreeMap<>(pods).entrySet()) {
            String to = pod.getValue();
            if (to.isEmpty() && service.role().equals(TARGET) && facts.plan().containsKey(service.host())) {
                throw new RequestException("the last restart of job " + job + " is not over on node "
                        + service.host() + ": its pods are held, or released now. Remedy: wait until ppmr job show"
                        + " has no restart under way, then stop the job (ppmr pod stop --job " + job.name() + ")");
            }
            boolean isEnded =
                    mayRun && service.role().equals(SOURCE) && facts.places().containsKey(service.host());
            if (to.isEmpty() && isEnded) {
                continue;
            }
            if (to.isEmpty()) {
                throw new RequestException("pod " + pod.getKey() + " of job " + job + " runs on node " + service.host()
                        + ". Remedy: stop the job first (there, ppmr pod stop --job " + job.name() + ")");
            }
            String node = services.findHostAt(to).orElse(to);
            // One that is off only since the questions may have moved the pod on, to a node that was asked before.
            boolean wasOff = services.isOff(node) && !present.contains(node);
            if (!awayOff.contains(node) && !awayOff.contains(to) && !wasOff) {
                throw new RequestException("pod " + pod.getKey() + " of job " + job + " was moved to " + node
                        + ", not recorded: its migration from node " + service.host() + " was without the cluster."
                        + " Remedy: wait until ppmr job show names node " + node + "; or stop the pod there, and"
                        + " confirm that (--moved-away-is-off " + node + ")");
            }
            wasMoved = true;
        }
        return wasMoved;
    }

    /** Pods may run where the record does not name them, so each node that is not off must answer that it has none. */
    private void requireEachAnswers(Set<String> present, Map<QueriedService, Answered> answers)
            throws RequestException {
        Set<String> answering = new TreeSet<>(awayOff);
        answers.forEach((service, answered) -> {
            if (answered.failure().isEmpty()) {
                answering.add(service.host());
            }
        });
        Set<String> silent = new TreeSet<>(present);
        silent.removeAll(answering);
        if (!silent.isEmpty()) {
            String names = String.join(",", silent);
            throw new RequestException("a node that is off had pods of job " + job
                    + ", or their node is unknown, and they may have been moved to " + String.join(", ", silent)
                    + " without a record, which does not answer. Remedy: start its services; or end the node, then"
                    + " type on the active controller's node: ppmr nodes off NODE; or make sure that no pod of the"
                    + " job runs there, and confirm that (--moved-away-is-off " + names + ")");
        }
    }

    private Map<String, Map<String, String>> images(List<String> hosts) throws RequestException, InterruptedException {
        return images(hosts, ImagePlaces.ALL);
    }

    private Map<String, Map<String, String>> images(List<String> hosts, ImagePlaces places)
            throws RequestException, InterruptedException {
        Map<String, Map<String, String>> readable = new TreeMap<>();
        for (String host : hosts) {
            try {
                readable.put(host, images(host, places));
            } catch (IOException e) {
                throw new RequestException(
                        "the target of node " + host + " does not answer: " + e.getMessage()
                                + ". Remedy: start it, or name other nodes (--on)",
                        e);
            }
        }
        return readable;
    }

    private Map<String, String> images(String host, ImagePlaces places)
            throws RequestException, IOException, InterruptedException {
        return lists.of(host, facts.set().orElseThrow().id(), places);
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
