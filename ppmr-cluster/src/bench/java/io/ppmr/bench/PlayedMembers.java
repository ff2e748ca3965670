package io.ppmr.bench;

import io.ppmr.cluster.job.JobKey;
import io.ppmr.cluster.job.JobPages;
import io.ppmr.cluster.job.JobPhase;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobQuestion.MemberStep;
import io.ppmr.cluster.job.JobRecord;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.JobView;
import io.ppmr.cluster.job.NodeImages;
import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.message.ControllerQuestions;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The sources of the nodes of a job over several nodes, each with one pod, as a controller sees them. They register,
 * read the job's record when they are notified, and report as {@code SourceMember} does. Nothing is held, dumped or
 * written, so the time is that of the messages alone. As a service syncs its images first, none reports IMAGE before
 * all have read GO. Each member has a thread and an address of its own, as members on
 * nodes have: all of them report at one moment.
 */
final class PlayedMembers implements ManySessions.Follower, AutoCloseable {
    private static final JobName JOB = new JobName(20001, "bench");
    private static final Duration QUESTION_LIMIT = Duration.ofSeconds(10);
    /** A service repeats a report that no controller has answered after an interval that doubles between these. */
    private static final long LEAST_AGAIN_MS = 100;

    private static final long MOST_AGAIN_MS = 1000;

    private static final int IMAGE_LIMIT_S = 120;
    private static final int FIRST_ADDRESS = 2;
    private static final int OCTET = 256;
    private static final double NANO = 1e9;
    private static final double MILLI = 1e6;

    /** A checkpoint that is under way. Figures are for each member. */
    private static final class Round {
        private final long number;
        private final AtomicIntegerArray notifications;
        private final AtomicIntegerArray reads;
        private final AtomicIntegerArray reports;
        private final AtomicIntegerArray tries;
        private final AtomicIntegerArray goReads;
        private final CountDownLatch goReadsLeft;
        private final CountDownLatch endsLeft;
        private final AtomicLong lastOutNs = new AtomicLong(Long.MIN_VALUE);
        private final AtomicLong firstGoNs = new AtomicLong(Long.MAX_VALUE);
        private final AtomicLong lastGoNs = new AtomicLong(Long.MIN_VALUE);
        private final AtomicLong zxid = new AtomicLong();

        private Round(long number, int members) {
            this.number = number;
            notifications = new AtomicIntegerArray(members);
            reads = new AtomicIntegerArray(members);
            reports = new AtomicIntegerArray(members);
            tries = new AtomicIntegerArray(members);
            goReads = new AtomicIntegerArray(members);
            goReadsLeft = new CountDownLatch(members);
            endsLeft = new CountDownLatch(members);
        }

        private static int most(AtomicIntegerArray figures) {
            int most = 0;
            for (int i = 0; i < figures.length(); i++) {
                most = Math.max(most, figures.get(i));
            }
            return most;
        }
    }

    private final int members;
    private final List<ControllerQuestions> questions = new ArrayList<>();
    private final ExecutorService threads;
    private final List<double[]> rounds = new ArrayList<>();
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private volatile Round round;
    private long zxidBefore;

    /** @param controllers the addresses of the controllers for questions */
    PlayedMembers(List<InetSocketAddress> controllers, PreSharedKey key, int members) throws IOException {
        this.members = members;
        threads = Executors.newFixedThreadPool(members, task -> {
            Thread thread = new Thread(task, "played-member");
            thread.setDaemon(true);
            return thread;
        });
        for (int i = 0; i < members; i++) {
            // An address of the loopback network: the limits of a controller for one address are not for all members.
            byte[] from = {127, 1, (byte) ((i + FIRST_ADDRESS) / OCTET), (byte) ((i + FIRST_ADDRESS) % OCTET)};
            questions.add(new ControllerQuestions(
                    controllers, key, new InetSocketAddress(InetAddress.getByAddress(from), 0)));
        }
        round = new Round(0, members);
    }

    /** Returns the path of the job's record. */
    String path() {
        return "/ppmr/jobs/" + JobKey.of(JOB);
    }

    private static String host(int member) {
        return "node-" + member;
    }

    private static String pod(int member) {
        return "p" + member;
    }

    private Answer ask(int member, JobQuestion question) throws IOException, RequestException {
        ClusterMessage.JobsAnswer answer = questions
                .get(member)
                .ask(
                        new ClusterMessage.AskJobs(question.kind(), question.text()),
                        ClusterMessage.JobsAnswer.class,
                        QUESTION_LIMIT);
        Answer parsed = Answer.parse(answer.text()).orElseThrow();
        if (parsed.refusal() != null) {
            throw new RequestException(parsed.refusal());
        }
        return parsed;
    }

    /** Has all members register at one moment. */
    void register(Duration limit) throws Exception {
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < members; i++) {
            int member = i;
            all.add(threads.submit(() -> {
                untilAnswered(
                        member,
                        new JobQuestion.Register(
                                JOB,
                                host(member),
                                members,
                                Set.of(pod(member)),
                                new JobRecord.JobSchedule("", "", false, false)),
                        () -> {});
                return null;
            }));
        }
        for (Future<?> one : all) {
            one.get(limit.toMillis(), TimeUnit.MILLISECONDS);
        }
    }

    /** Repeats a question until a controller has answered it, as services do. */
    private void untilAnswered(int member, JobQuestion question, Runnable asked) throws Exception {
        boolean isAnswered = false;
        long againMs = LEAST_AGAIN_MS;
        while (!isAnswered) {
            asked.run();
            try {
                ask(member, question);
                isAnswered = true;
            } catch (IOException | RequestException e) {
                // No controller has answered, or it answers that the member should try again.
                if (e instanceof RequestException
                        && !String.valueOf(e.getMessage()).contains("try again")) {
                    throw e;
                }
                long waitMs = againMs / 2 + ThreadLocalRandom.current().nextLong(againMs / 2);
                new CountDownLatch(1).await(waitMs, TimeUnit.MILLISECONDS);
                againMs = Math.min(2 * againMs, MOST_AGAIN_MS);
            }
        }
    }

    @Override
    public void notified(int member) {
        round.notifications.incrementAndGet(member);
    }

    @Override
    public void read(int member, byte[] bytes, long zxid) {
        Round now = round;
        JobRecord record = JobRecord.decode(bytes).orElseThrow();
        boolean isRound = record.numbers().round() == now.number;
        now.reads.incrementAndGet(member);
        now.zxid.accumulateAndGet(zxid, Math::max);
        if (isRound && record.phase() == JobPhase.CHECKPOINT && !record.isGo()) {
            report(member, now, record, MemberStep.OUT, null);
        } else if (isRound && record.phase() == JobPhase.CHECKPOINT) {
            if (now.goReads.incrementAndGet(member) == 1) {
                now.firstGoNs.accumulateAndGet(System.nanoTime(), Math::min);
                now.lastGoNs.accumulateAndGet(System.nanoTime(), Math::max);
                now.goReadsLeft.countDown();
                report(
                        member,
                        now,
                        record,
                        MemberStep.IMAGE,
                        new NodeImages(Map.of(pod(member), "0123456789abcdef01234567"), 1L << 30, 1, 1, 1));
            }
        } else if (isRound && record.phase() == JobPhase.RUNNING) {
            now.endsLeft.countDown();
        }
    }

    private void report(int member, Round now, JobRecord record, MemberStep step, NodeImages images) {
        JobQuestion report = new JobQuestion.StepReport(
                JOB,
                host(member),
                step,
                record.numbers().incarnation(),
                record.numbers().round(),
                null,
                null,
                images);
        threads.execute(() -> {
            try {
                if (step == MemberStep.IMAGE && !now.goReadsLeft.await(IMAGE_LIMIT_S, TimeUnit.SECONDS)) {
                    throw new IOException("not all members have read GO");
                }
                untilAnswered(member, report, () -> {
                    now.tries.incrementAndGet(member);
                    if (step == MemberStep.OUT) {
                        now.lastOutNs.accumulateAndGet(System.nanoTime(), Math::max);
                    }
                });
                now.reports.incrementAndGet(member);
            } catch (Exception e) {
                failure.compareAndSet(null, e);
            }
        });
    }

    /** Makes a checkpoint. Returns its time in seconds, from the order until all members have read that it is over. */
    double checkpoint(Duration limit) throws Exception {
        // Afterwards all members have read the record of the last change, and no notification is on its way.
        if (!round.endsLeft.await(limit.toMillis(), TimeUnit.MILLISECONDS)) {
            throw new IOException("not all members read the record of the job");
        }
        JobView before = show();
        Round next = new Round(before.round() + 1, members);
        long startNs = System.nanoTime();
        round = next;
        ask(0, new JobQuestion.OrderCheckpoint(JOB));
        boolean isOver = next.goReadsLeft.await(limit.toMillis(), TimeUnit.MILLISECONDS)
                && next.endsLeft.await(limit.toMillis(), TimeUnit.MILLISECONDS);
        double seconds = (System.nanoTime() - startNs) / NANO;
        JobView after = show();
        boolean isWritten =
                after.last().outcome().equals(RoundOutcome.CHECKPOINTED.word()) && after.round() == next.number;
        if (!isOver || !isWritten || failure.get() != null) {
            throw new IOException("the checkpoint did not end as it should: " + after.last(), failure.get());
        }
        // The transactions before the first checkpoint are those of the registration.
        if (zxidBefore > 0) {
            rounds.add(new double[] {
                next.zxid.get() - zxidBefore,
                Round.most(next.notifications),
                Round.most(next.reads),
                Round.most(next.reports),
                Round.most(next.tries),
                (next.lastGoNs.get() - next.firstGoNs.get()) / MILLI,
                (next.lastGoNs.get() - next.lastOutNs.get()) / MILLI,
                seconds * NANO / MILLI
            });
        }
        zxidBefore = next.zxid.get();
        return seconds;
    }

    private JobView show() throws IOException, RequestException {
        return JobPages.request(question -> ask(0, question), JOB, null).get(0);
    }

    /** Returns the medians of all checkpoints but the first. */
    Map<String, Double> figures() {
        Map<String, Double> figures = new LinkedHashMap<>();
        List<String> names = List.of(
                "transactions a checkpoint",
                "notifications for a member",
                "reads of the record for a member",
                "reports of a member",
                "tries of a member to report, with those that found no place",
                "milliseconds from the first member that has read GO to the last",
                "milliseconds from the last OUT until all have read GO",
                "milliseconds of a checkpoint");
        for (int i = 0; i < names.size(); i++) {
            int column = i;
            double[] all = rounds.stream()
                    .mapToDouble(figure -> figure[column])
                    .sorted()
                    .toArray();
            figures.put(names.get(i), all[all.length / 2]);
            if (column >= names.size() - 2) {
                figures.put(names.get(i) + ", longest", Arrays.stream(all).max().orElseThrow());
            }
        }
        return figures;
    }

    @Override
    public void close() {
        threads.shutdownNow();
    }
}
