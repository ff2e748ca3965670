package io.ppmr.daemon.control;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/**
 * A kind of request to a service's control socket, under its name in {@link ControlProtocol}. It is immutable. Called
 * concurrently on the connections' threads.
 *
 * @param fields the type of its fields
 * @param readsOnly whether it changes nothing, so that the right to read the status suffices
 * @param owners selects users that may send it without the right to control the service
 * @param answerer answers it
 */
public record ControlRequest<T>(Class<T> fields, boolean readsOnly, Owners<T> owners, Answerer<T> answerer) {
    /**
     * Creates a request for users who may control the service. A request that only reads is also for users who may read
     * its status.
     */
    public ControlRequest(Class<T> fields, boolean readsOnly, Answerer<T> answerer) {
        this(fields, readsOnly, (request, user) -> false, answerer);
    }

    /** Checks whether a request is about the user's own jobs or pods. */
    @FunctionalInterface
    public interface Owners<T> {
        boolean mayAsk(T request, String user);
    }

    /** Answers one request to its end. */
    @FunctionalInterface
    public interface Answerer<T> {
        void answer(T request, Exchange with) throws IOException, InterruptedException;
    }

    /** A request without fields. */
    public record Plain() {}

    /**
     * Shows something.
     *
     * @param lines whether the answer has lines for people, for the native client, in place of its values
     */
    public record Shown(boolean lines) {}

    /**
     * Moves a job.
     *
     * @param job the job, or null for the job of the configuration's trigger
     * @param to the nodes, each HOST:PORT, or empty for the configured spare nodes
     * @param keep the directory in which a copy of the images is kept, or null for the job's own, if it has one
     * @param withinSeconds the time in which the job should be moved, or null if it may take any time
     * @param waits whether the client receives progress
     * @param withoutCluster whether a job over several nodes is moved even if no controller can note it
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record Migrate(
            String job,
            List<?> to,
            String keep,
            @JsonProperty("within_seconds") Long withinSeconds,
            @JsonProperty("wait") Boolean waits,
            @JsonProperty("without_cluster") Boolean withoutCluster) {
        /** Makes a request that a controller notes. */
        public Migrate(String job, List<?> to, String keep, Long withinSeconds, Boolean waits) {
            this(job, to, keep, withinSeconds, waits, null);
        }

        public Migrate {
            // An entry that is no text is refused as no node.
            to = to == null ? List.of() : to.stream().map(String::valueOf).toList();
            waits = waits == null || waits;
        }
    }

    /** Cancels a migration. {@code id} is its name, or the first characters of its name. */
    public record Cancel(String id) {
        public Cancel {
            id = id == null ? "" : id;
        }
    }

    /**
     * An operator's decision about a migration, or a query of its consequences.
     *
     * @param id its name, or the first characters of its name
     * @param outcome commit or rollback
     * @param carryOut whether the service carries the decision out
     */
    @JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
    public record ResolveRequest(
            String id, String outcome, Set<String> targetsOff, boolean sourceOff, boolean firstOff, boolean carryOut) {
        private static final String COMMIT = "commit";
        private static final String ROLLBACK = "rollback";

        public ResolveRequest {
            id = id == null ? "" : id;
            targetsOff = targetsOff == null ? Set.of() : Set.copyOf(targetsOff);
        }

        static ResolveRequest of(String id, OperatorDecision word, boolean carryOut) {
            String outcome = word.outcome() == FinalOutcome.COMMITTED ? COMMIT : ROLLBACK;
            return new ResolveRequest(id, outcome, word.targetsOff(), word.sourceOff(), word.firstOff(), carryOut);
        }

        private void answer(Resolver resolver, Exchange with) throws IOException, InterruptedException {
            if (!COMMIT.equals(outcome) && !ROLLBACK.equals(outcome)) {
                with.send(ControlProtocol.ERROR, "an outcome is commit or rollback, not '" + outcome + "'");
                return;
            }
            OperatorDecision decision = new OperatorDecision(
                    COMMIT.equals(outcome) ? FinalOutcome.COMMITTED : FinalOutcome.ROLLED_BACK,
                    targetsOff,
                    sourceOff,
                    firstOff);
            with.send(ControlProtocol.RESOLUTION, resolver.resolve(id, decision, carryOut, "user " + with.user()));
        }
    }

    /** Carries out an operator's decision, or describes its consequences. Called on any thread, and blocks it. */
    @FunctionalInterface
    public interface Resolver {
        /**
         * Carries out an operator's decision about a migration, or describes its consequences.
         *
         * @param id the migration's name, or the first characters of its name
         * @param carryOut whether the service carries the decision out
         * @param by the operator, for the log
         */
        Resolution resolve(String id, OperatorDecision word, boolean carryOut, String by)
                throws IOException, InterruptedException;
    }

    /** Returns the request for an operator's decision, with the right to control the service: it may end processes. */
    public static ControlRequest<ResolveRequest> resolve(Resolver resolver) {
        return new ControlRequest<>(ResolveRequest.class, false, (request, with) -> request.answer(resolver, with));
    }

    /** Returns the request for the status of a service. Calls {@code status} on any thread. */
    public static ControlRequest<Shown> status(Supplier<ControlStatus> status) {
        return new ControlRequest<>(Shown.class, true, (request, with) -> {
            ControlStatus now = status.get();
            with.send(
                    request.lines() ? ControlProtocol.LINES : ControlProtocol.STATUS,
                    request.lines() ? StatusText.lines(now) : now);
        });
    }

    boolean isOwner(JsonNode request, String user, ControlProtocol protocol) throws IOException {
        return owners.mayAsk(protocol.value(request, fields), user);
    }

    void answer(JsonNode request, Exchange with, ControlProtocol protocol) throws IOException, InterruptedException {
        T read;
        try {
            read = protocol.value(request, fields);
        } catch (IOException e) {
            with.send(ControlProtocol.ERROR, e.getMessage());
            return;
        }
        answerer.answer(read, with);
    }

    /**
     * A client's connection while its request is answered. The connection's thread owns it.
     *
     * @param user the caller
     * @param controls whether that user may control the service, and so do more than with the user's own jobs
     * @param serving whether the service still serves
     */
    public record Exchange(
            String user, boolean controls, LineChannel lines, ControlProtocol protocol, BooleanSupplier serving) {
        private static final Duration WRITE_LIMIT = Duration.ofSeconds(5);

        /** Sends an answer with one key. */
        public void send(String key, Object value) throws IOException {
            lines.write(to -> protocol.write(to, key, value), WRITE_LIMIT);
        }

        /** Returns true while the client is connected and the service serves. Otherwise no answer is needed. */
        public boolean isOpen() throws IOException {
            return serving.getAsBoolean() && !lines.peerHasClosed();
        }
    }
}
