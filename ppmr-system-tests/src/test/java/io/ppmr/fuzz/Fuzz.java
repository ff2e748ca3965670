package io.ppmr.fuzz;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;

/**
 * Feeds a parser with inputs that a {@link Mutator} makes, and checks its contract. It accepts an input, or refuses it
 * by a named exception with a sentence, within a second. Its memory is bounded by the input's length, and it keeps
 * nothing of the input. It is for one thread.
 *
 * <p>The seed is printed. {@code -Dppmr.fuzz.seed=N} repeats a run, {@code -Dppmr.fuzz.input=N} one input of it.
 */
public final class Fuzz {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final long MOST_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long HANGS_NS = TimeUnit.SECONDS.toNanos(30);
    /** Caches that fill once, and what a collection leaves. */
    private static final long MOST_KEPT_BYTES = 12L << 20;

    private static final int SHOWN_BYTES = 8192;

    private final FuzzPlan plan;
    private final Mutator mutator;
    private final List<Class<? extends Exception>> refusals;
    private UnaryOperator<byte[]> repair = UnaryOperator.identity();
    private long fixedBytes = 64 * 1024;
    private long bytesAByte = 64;
    private volatile long inputSinceNs = Long.MAX_VALUE;

    /** The parser that is tried. */
    @FunctionalInterface
    public interface Parser {
        void parse(byte[] input) throws Exception;
    }

    /**
     * @param mutator makes inputs out of valid ones
     * @param refusals the exceptions by which it may refuse
     */
    public Fuzz(FuzzPlan plan, Mutator mutator, List<Class<? extends Exception>> refusals) {
        this.plan = plan;
        this.mutator = mutator;
        this.refusals = List.copyOf(refusals);
    }

    /**
     * Repairs the parts that would cause an early rejection of most inputs, such as a checksum. Three of four inputs
     * are repaired.
     */
    public Fuzz repairedBy(UnaryOperator<byte[]> way) {
        repair = way;
        return this;
    }

    /** Limits what a parser may allocate for an input: a fixed part, and a part for each of its bytes. */
    public Fuzz allocatesAtMost(long fixed, long aByte) {
        fixedBytes = fixed;
        bytesAByte = aByte;
        return this;
    }

    /** Tries the number of inputs in the gate's plan. */
    public void inTheGate(Parser parser) throws Exception {
        run(plan.gate(), parser);
    }

    /** Tries the number of inputs in the plan of all tests. */
    public void forLong(Parser parser) throws Exception {
        run(plan.all(), parser);
    }

    private void run(int inputs, Parser parser) throws Exception {
        long seed = Long.getLong("ppmr.fuzz.seed", System.nanoTime());
        int only = Integer.getInteger("ppmr.fuzz.input", -1);
        System.out.printf("fuzz %s: %d inputs, -Dppmr.fuzz.seed=%d repeats them%n", plan, inputs, seed);
        for (byte[] valid : mutator.valid()) {
            parser.parse(valid.clone());
        }
        CountDownLatch over = new CountDownLatch(1);
        Thread hangs = watch(Thread.currentThread(), seed, over);
        long startNs = System.nanoTime();
        int taken = 0;
        long usedBytes = 0;
        try {
            for (int number = 0; number < inputs; number++) {
                if (number == inputs / 4) {
                    usedBytes = usedHeap();
                }
                if (only < 0 || only == number) {
                    taken += tryOne(parser, seed, number) ? 1 : 0;
                }
            }
        } finally {
            over.countDown();
            hangs.join();
        }
        long keptBytes = usedHeap() - usedBytes;
        System.out.printf(
                "fuzz %s: %d of %d inputs were taken, the others refused, in %d ms; %d bytes are kept%n",
                plan, taken, inputs, TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs), keptBytes);
        assertTrue(keptBytes <= MOST_KEPT_BYTES, () -> plan + " keeps " + keptBytes + " bytes of what it has read");
        assertTrue(only >= 0 || taken > inputs / 1000, plan + " takes hardly an input: nothing is shown");
        assertTrue(only >= 0 || inputs - taken > inputs / 1000, plan + " refuses hardly an input: nothing is shown");
    }

    private boolean tryOne(Parser parser, long seed, int number) {
        SplittableRandom random = new SplittableRandom(seed * 0x9E3779B97F4A7C15L + number);
        byte[] made = mutator.next(random);
        byte[] input = random.nextInt(4) == 0 ? made : repair.apply(made);
        boolean took = false;
        long costNs = Long.MAX_VALUE;
        long costBytes = Long.MAX_VALUE;
        long mostBytes = fixedBytes + bytesAByte * input.length;
        // Repeats the input, because the cost may come from the first use of a class, or from another process.
        for (int i = 0; i < 3 && (costNs > MOST_NS || costBytes > mostBytes); i++) {
            byte[] given = input.clone();
            long startBytes = THREADS.getCurrentThreadAllocatedBytes();
            long startNs = System.nanoTime();
            inputSinceNs = startNs;
            try {
                parser.parse(given);
                took = true;
            } catch (Throwable e) {
                requireNamed(e, seed, number, input);
            }
            inputSinceNs = Long.MAX_VALUE;
            costNs = Math.min(costNs, System.nanoTime() - startNs);
            costBytes = Math.min(costBytes, THREADS.getCurrentThreadAllocatedBytes() - startBytes);
        }
        if (costNs > MOST_NS || costBytes > mostBytes) {
            throw new AssertionError(about(seed, number, input) + " takes " + TimeUnit.NANOSECONDS.toMillis(costNs)
                    + " ms and " + costBytes + " bytes of memory; it may take "
                    + TimeUnit.NANOSECONDS.toMillis(MOST_NS) + " ms and " + mostBytes + " bytes");
        }
        return took;
    }

    private void requireNamed(Throwable e, long seed, int number, byte[] input) {
        boolean named = refusals.stream().anyMatch(refusal -> refusal.isInstance(e));
        boolean sentence = e.getMessage() != null && e.getMessage().strip().contains(" ");
        if (!named || !sentence) {
            throw new AssertionError(about(seed, number, input) + " is answered with " + e, e);
        }
    }

    private String about(long seed, int number, byte[] input) {
        return "input " + number + " of " + plan + " (-Dppmr.fuzz.seed=" + seed + " -Dppmr.fuzz.input=" + number
                + " repeats it), " + input.length + " bytes, \"" + shown(input) + "\",";
    }

    private static String shown(byte[] input) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < Math.min(input.length, SHOWN_BYTES); i++) {
            int one = input[i] & 0xFF;
            boolean plain = one >= ' ' && one < 0x7F && one != '\\';
            text.append(plain ? String.valueOf((char) one) : "\\x%02x".formatted(one));
        }
        return text + (input.length > SHOWN_BYTES ? "..." : "");
    }

    /** Returns which input hangs, and where. Ends the run if it can be interrupted. */
    private Thread watch(Thread runner, long seed, CountDownLatch over) {
        Thread thread = new Thread(
                () -> {
                    try {
                        while (!over.await(1, TimeUnit.SECONDS)) {
                            long sinceNs = inputSinceNs;
                            if (sinceNs != Long.MAX_VALUE && System.nanoTime() - sinceNs > HANGS_NS) {
                                System.out.println("fuzz " + plan + " hangs, seed " + seed + ": "
                                        + List.of(runner.getStackTrace()));
                                runner.interrupt();
                                return;
                            }
                        }
                    } catch (InterruptedException e) {
                        // No thread interrupts it.
                        Thread.currentThread().interrupt();
                    }
                },
                "fuzz-watch");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static long usedHeap() {
        List<Long> readings = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            System.gc();
            readings.add(
                    Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory());
        }
        return readings.stream().mapToLong(Long::longValue).min().orElseThrow();
    }
}
