package io.ppmr.pods;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.jobs.JobSource;
import io.ppmr.linux.Accounts;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.protocol.control.PodFacts;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The pods of this node as jobs of their users. Each pod of a job is a rank, in the order of the pods' names. Only root
 * can write the records of pods, so no data comes from a user. It is immutable and safe for any thread. Each call reads
 * all records.
 *
 * @param pods the pods of this node
 * @param checkpointers the checkpointers of this source's configuration
 */
public record PodJobs(Pods pods, Map<String, Checkpointer> checkpointers) implements JobSource {
    private static final Logger LOG = LoggerFactory.getLogger(PodJobs.class);
    private static final String NUMBER = "\\d{1,10}";

    public PodJobs {
        checkpointers = Map.copyOf(checkpointers);
    }

    /** Lists the jobs that can be moved. */
    @Override
    public List<JobName> names() {
        return running().stream()
                .filter(pod -> pods.checkpointerOf(pod).isPresent())
                .map(PodJobs::name)
                .distinct()
                .sorted((a, b) -> a.toString().compareTo(b.toString()))
                .toList();
    }

    /** Lists the jobs of one user. */
    @Override
    public List<JobName> names(String user) {
        return names().stream().filter(name -> belongsTo(name.uid(), user)).toList();
    }

    private List<PodRecord> running() {
        try {
            return pods.running();
        } catch (IOException e) {
            LOG.warn("the pods of this node cannot be inspected: {}", e.getMessage());
            return List.of();
        }
    }

    private static JobName name(PodRecord pod) {
        return new JobName(pod.uid(), pod.specification().job());
    }

    private static boolean belongsTo(int uid, String user) {
        try {
            return user.matches(NUMBER)
                    ? Integer.parseUnsignedInt(user) == uid
                    : Accounts.user(user).filter(found -> found.uid() == uid).isPresent();
        } catch (IOException e) {
            LOG.warn("user {} is not known, and moves no pod: {}", user, e.getMessage());
            return false;
        }
    }

    @Override
    public boolean isOwnedBy(String name, String user) {
        return !named(name, Optional.of(user)).isEmpty();
    }

    /** Finds the jobs with this short or full name. */
    @Override
    public List<JobName> named(String wanted, Optional<String> onlyOf) {
        return running().stream()
                .map(PodJobs::name)
                .filter(name -> name.name().equals(wanted) || name.toString().equals(wanted))
                .filter(name -> onlyOf.isEmpty() || belongsTo(name.uid(), onlyOf.get()))
                .distinct()
                .toList();
    }

    /** Returns a job with its current pods. */
    @Override
    public Optional<ConfiguredJob> find(JobName wanted) throws RequestException {
        List<PodRecord> found = running().stream()
                .filter(pod -> name(pod).equals(wanted))
                .sorted(Comparator.comparing(PodRecord::name))
                .toList();
        if (found.isEmpty()) {
            return Optional.empty();
        }
        List<ConfiguredJob.RankSource> ranks = new ArrayList<>();
        Map<Integer, PodFacts> facts = new HashMap<>();
        Set<String> tools = new TreeSet<>();
        for (PodRecord pod : found) {
            int rank = ranks.size();
            ranks.add(new ConfiguredJob.RankSource(rank, pod.init().pid(), null));
            Optional<String> tool = pods.checkpointerOf(pod).filter(checkpointers::containsKey);
            Optional<PodFacts> known = pods.facts(pod);
            if (known.isEmpty() || tool.isEmpty()) {
                throw new RequestException("pod " + pod.fullName() + " is not moved: [pods."
                        + pod.specification().template()
                        + "] of this source's configuration names no checkpointer. Remedy: the operator writes there"
                        + " checkpointer = \"NAME\" of a [checkpointers.NAME]");
            }
            facts.put(rank, known.get());
            tools.add(tool.get());
        }
        if (tools.size() > 1) {
            throw new RequestException("the pods of job " + wanted + " are not moved together: their templates name the"
                    + " checkpointers " + String.join(" and ", tools) + ". Remedy: the operator writes the same"
                    + " checkpointer in both, or the user gives the pods jobs of their own");
        }
        PodRecord first = found.get(0);
        return Optional.of(new ConfiguredJob(
                wanted.name(),
                new JobUser(first.uid(), first.gid()),
                checkpointers.get(tools.iterator().next()),
                ranks,
                Map.of(),
                JobHooks.NONE,
                List.of(),
                Optional.empty(),
                facts));
    }
}
