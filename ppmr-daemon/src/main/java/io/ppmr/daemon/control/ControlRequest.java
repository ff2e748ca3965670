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
 * A kind of request that a service answers on its control socket, under its name in {@link ControlProtocol}. Immutable;
 * called on the connections' threads, at once.
 *
 * @param fields what such a request says
 * @param readsOnly whether it changes nothing, so that those may ask who may only read the status
 * @param owners which users may ask it although they may not control the service
 * @param answerer what answers it
 */
public record ControlRequest<T>(Class<T> fields, boolean readsOnly, Owners<T> owners, Answerer<T> answerer) {
    /** One that is only for those who may control the service or, if it reads only, may read its status. */
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

    /** Says nothing but its name. */
    public record Plain() {}

    /**
     * Has a job moved.
     *
     * @param job null for the one that the configuration's trigger moves
     * @param to the nodes, each HOST:PORT; empty for the configured spare nodes
     * @param keep the directory in which a copy of the images is kept; null for the job's own, if it has one
     * @param waits whether the client receives progress
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record Migrate(
            String job,
            List<?> to,
            String keep,
            @JsonProperty("wait") Boolean waits) {
        public Migrate {
            // Whatever stands in the list that is no text is refused as no node.
            to = to == null ? List.of() : to.stream().map(String::valueOf).toList();
            waits = waits == null || waits;
        }
    }

    /** Calls a migration off; {@code id} is its name, or the first characters of it. */
    public record Cancel(String id) {
        public Cancel {
            id = id == null ? "" : id;
        }
    }

    /**
     * An operator decides for a migration, or asks what that would mean.
     *
     * @param id its name, or the first characters of it
     * @param outcome commit or rollback
     * @param carryOut whether it is to be done
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
                with.say(ControlProtocol.ERROR, "an outcome is commit or rollback, not '" + outcome + "'");
                return;
            }
            OperatorDecision decision = new OperatorDecision(
                    COMMIT.equals(outcome) ? FinalOutcome.COMMITTED : FinalOutcome.ROLLED_BACK,
                    targetsOff,
                    sourceOff,
                    firstOff);
            with.say(ControlProtocol.RESOLUTION, resolver.resolve(id, decision, carryOut, "user " + with.user()));
        }
    }

    /** A service that carries out what an operator decides, or says what it would mean. Any thread; blocks it. */
    @FunctionalInterface
    public interface Resolver {
        /**
         * Follows an operator's word for a migration, or says what that would mean.
         *
         * @param id the migration's name, or the first characters of it
         * @param carryOut whether it is to be done
         * @param by who asks, for the log
         */
        Resolution resolve(String id, OperatorDecision word, boolean carryOut, String by)
                throws IOException, InterruptedException;
    }

    /** The request by which an operator decides, for those who may control the service, as it may end processes. */
    public static ControlRequest<ResolveRequest> resolve(Resolver resolver) {
        return new ControlRequest<>(ResolveRequest.class, false, (request, with) -> request.answer(resolver, with));
    }

    /** The request for what a service is doing; {@code status} is asked on any thread. */
    public static ControlRequest<Plain> status(Supplier<ControlStatus> status) {
        return new ControlRequest<>(
                Plain.class, true, (request, with) -> with.say(ControlProtocol.STATUS, status.get()));
    }

    boolean isOwner(JsonNode request, String user, ControlProtocol protocol) throws IOException {
        return owners.mayAsk(protocol.value(request, fields), user);
    }

    void answer(JsonNode request, Exchange with, ControlProtocol protocol) throws IOException, InterruptedException {
        T read;
        try {
            read = protocol.value(request, fields);
        } catch (IOException e) {
            with.say(ControlProtocol.ERROR, e.getMessage());
            return;
        }
        answerer.answer(read, with);
    }

    /**
     * A client's connection while its request is answered. Owned by the connection's thread.
     *
     * @param user who asks
     * @param controls whether that user may control the service, and so do more than with the user's own jobs
     * @param serving whether the service still serves
     */
    public record Exchange(
            String user, boolean controls, LineChannel lines, ControlProtocol protocol, BooleanSupplier serving) {
        private static final Duration WRITE_LIMIT = Duration.ofSeconds(5);

        /** Sends an answer with one key. */
        public void say(String key, Object value) throws IOException {
            lines.write(to -> protocol.write(to, key, value), WRITE_LIMIT);
        }

        /**
         * Returns true if the client still listens and the service still serves: otherwise nothing more is to be said.
         */
        public boolean isOpen() throws IOException {
            return serving.getAsBoolean() && !lines.peerHasClosed();
        }
    }
}
