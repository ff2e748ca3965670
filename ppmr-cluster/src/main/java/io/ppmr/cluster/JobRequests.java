package io.ppmr.cluster;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import io.ppmr.cluster.job.ActiveController;
import io.ppmr.cluster.job.JobKey;
import io.ppmr.cluster.job.JobPages;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobView;
import io.ppmr.daemon.control.ControlProtocol;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.ControlRequest.Exchange;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.linux.Accounts;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;

/**
 * The requests about jobs over several nodes on the control socket of a service. Every user may send them; a user sees
 * and changes the user's own jobs, and who controls the service all jobs.
 *
 * <pre>
 *   {"request": "job_show", "job": JOB}        "jobs", a list of {@link JobView}; without a job all
 *   {"request": "job_checkpoint", "job": JOB}  "job_ordered", the number of the checkpoint
 *   {"request": "job_restart", "job": JOB, "set": SET, "on": [HOST],
 *    "moved_away_is_off": [HOST]}
 *                                              "job_ordered", the number of the restart
 *   {"request": "job_recover", "job": JOB, "set": SET, "off": [HOST],
 *    "moved_away_is_off": [HOST]}
 *                                              "job_ordered", the number of the restart; "off" at a controller only
 *   {"request": "job_forget", "job": JOB}      "job_forgotten"
 * </pre>
 */
final class JobRequests {
    static final String SHOW = "job_show";
    static final String JOBS = "jobs";
    static final String CHECKPOINT = "job_checkpoint";
    static final String RESTART = "job_restart";
    static final String RECOVER = "job_recover";
    static final String ORDERED = "job_ordered";
    static final String FORGET = "job_forget";
    static final String FORGOTTEN = "job_forgotten";

    private JobRequests() {}

    /**
     * Names a job, and for a restart its set and the nodes.
     *
     * @param job JOB or UID/JOB
     * @param set the set, or null for the newest
     * @param on the nodes, or null for those where the pods were
     * @param awayOff the nodes on which no pod of the job runs by an operator's confirmation, or null
     * @param off the nodes that are off by an operator's report, or null
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    record JobRequest(
            String job,
            String set,
            List<String> on,
            @JsonProperty("moved_away_is_off") List<String> awayOff,
            List<String> off) {
        /** A request about a job. */
        JobRequest(String job) {
            this(job, null, null, null, null);
        }
    }

    /** Notes an operator's report that a node is off. Returns why it cannot be so, or empty. */
    @FunctionalInterface
    interface OffReport {
        Optional<String> of(String node, String by) throws IOException, InterruptedException;
    }

    /** Carries a request out, and sends the answer. */
    @FunctionalInterface
    private interface Work {
        void carryOut(JobRequest request, Exchange with) throws IOException, RequestException;
    }

    /**
     * Returns all requests, by their names in the protocol.
     *
     * @param host the name of this node
     * @param refusal why pods of a job on this node are not registered, if so
     * @param off takes reports of nodes that are off: at a controller, and at no other service
     */
    static Map<String, ControlRequest<?>> of(
            ActiveController controllers,
            String host,
            Function<JobName, Optional<String>> refusal,
            Optional<OffReport> off) {
        return Map.of(
                SHOW,
                request((request, with) -> with.send(JOBS, jobs(controllers, request, with, refusal))),
                CHECKPOINT,
                request((request, with) ->
                        with.send(ORDERED, ordered(controllers, new JobQuestion.OrderCheckpoint(own(request, with))))),
                RESTART,
                request((request, with) -> with.send(ORDERED, restart(controllers, request, with, host, false))),
                RECOVER,
                request((request, with) -> {
                    reportOff(off, request, with);
                    with.send(ORDERED, restart(controllers, request, with, host, true));
                }),
                FORGET,
                request((request, with) -> {
                    JobName job = own(request, with);
                    ordered(controllers, new JobQuestion.Forget(job));
                    with.send(FORGOTTEN, job.toString());
                }));
    }

    private static ControlRequest<JobRequest> request(Work work) {
        return new ControlRequest<>(JobRequest.class, false, (request, user) -> true, (request, with) -> {
            try {
                work.carryOut(request, with);
            } catch (RequestException e) {
                with.send(ControlProtocol.REFUSED, e.getMessage());
            } catch (IOException e) {
                with.send(ControlProtocol.ERROR, e.getMessage());
            }
        });
    }

    private static void reportOff(Optional<OffReport> off, JobRequest request, Exchange with)
            throws IOException, RequestException {
        List<String> nodes = request.off() == null ? List.of() : request.off();
        if (!nodes.isEmpty() && (off.isEmpty() || !with.controls())) {
            throw new RequestException("only an operator can report a node as off, on the active controller's node."
                    + " Remedy: type there: ppmr job recover --config /etc/ppmr/controller.toml --off NODE");
        }
        for (String node : nodes) {
            try {
                Optional<String> why = off.orElseThrow().of(node, "user " + with.user());
                if (why.isPresent()) {
                    throw new RequestException(why.get());
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IOException("the controller ends", e);
            }
        }
    }

    private static Long restart(
            ActiveController controllers, JobRequest request, Exchange with, String host, boolean isRecovery)
            throws IOException, RequestException {
        String set = request.set() == null ? "" : request.set();
        if (!set.isEmpty() && !JobKey.isSet(set)) {
            throw new RequestException("there is no set of that name. Remedy: ppmr job show lists the sets of a job");
        }
        List<String> on = request.on() == null ? List.of() : request.on();
        List<String> awayOff = request.awayOff() == null ? List.of() : request.awayOff();
        if (!awayOff.isEmpty() && !with.controls()) {
            throw new RequestException("only an operator can confirm that no pod runs on a node. Remedy: have one"
                    + " restart the job with --moved-away-is-off");
        }
        return ordered(
                controllers, new JobQuestion.OrderRestart(own(request, with), set, on, host, awayOff, isRecovery));
    }

    private static Long ordered(ActiveController controllers, JobQuestion question)
            throws IOException, RequestException {
        Answer answer = controllers.ask(question);
        if (answer.refusal() != null) {
            throw new RequestException(answer.refusal());
        }
        return answer.number() == null ? 0 : answer.number();
    }

    private static List<JobView> jobs(
            ActiveController controllers,
            JobRequest request,
            Exchange with,
            Function<JobName, Optional<String>> refusal)
            throws IOException, RequestException {
        Integer only = with.controls() ? null : Accounts.uidOf(with.user());
        JobName job = request.job() == null ? null : own(request, with);
        List<JobView> jobs = JobPages.request(controllers, job, only);
        Optional<String> unregistered = job == null || !jobs.isEmpty() ? Optional.empty() : refusal.apply(job);
        if (unregistered.isPresent()) {
            throw new RequestException(
                    "the pods of job " + job + " on this node are not registered: " + unregistered.get());
        }
        return jobs;
    }

    /** Returns the named job, which must be the caller's, unless the caller controls the service. */
    private static JobName own(JobRequest request, Exchange with) throws IOException, RequestException {
        int caller = Accounts.uidOf(with.user());
        String named = request.job() == null ? "" : request.job();
        int slash = named.indexOf('/');
        Optional<JobName> job = slash < 0
                ? JobKey.parse(Integer.toUnsignedString(caller) + "." + named)
                : JobKey.parse(named.substring(0, slash) + "." + named.substring(slash + 1));
        if (job.isEmpty() || (job.get().uid() != caller && !with.controls())) {
            throw new RequestException(
                    "you have no job of that name. Remedy: ppmr job list shows your jobs; the name of"
                            + " another user's is UID/JOB, for those who control the service");
        }
        return job.get();
    }
}
