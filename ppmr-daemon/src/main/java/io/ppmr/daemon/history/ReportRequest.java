package io.ppmr.daemon.history;

import io.ppmr.daemon.control.ControlProtocol;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.ControlRequest.Exchange;
import io.ppmr.linux.Accounts;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.transaction.journal.MappedJournal;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The request for a migration's records, from which {@code ppmr report} of an ordinary user draws the page. A job's
 * owner gets those of own jobs, as {@link OwnersView} shows them. A migration of another user is refused with the words
 * for one that does not exist. Users read the journal one after the other, since it may be large. It is for any thread.
 */
public final class ReportRequest {
    /** The name of the request in the protocol. */
    public static final String NAME = "migration_records";
    /** The key of its answer. */
    public static final String ANSWER = "records";

    private static final Logger LOG = LoggerFactory.getLogger(ReportRequest.class);
    private static final long TURN_LIMIT_S = 5;
    private static final int MAX_ID = 64;

    private final Path journal;
    private final SampleStore store;
    private final Semaphore turn = new Semaphore(1);

    /**
     * The fields of the request.
     *
     * @param id the migration's name, or its first characters, or empty for the last one
     */
    public record Fields(String id) {
        public Fields {
            id = id == null ? "" : id;
        }
    }

    /** @param folder the journal's folder */
    public ReportRequest(Path folder) {
        journal = folder.resolve(MappedJournal.FILE_NAME);
        store = new SampleStore(folder);
    }

    /** Returns the request. Each user may send it, since its answer depends on the user. */
    public ControlRequest<Fields> request() {
        return new ControlRequest<>(Fields.class, false, (fields, user) -> true, this::answer);
    }

    private void answer(Fields fields, Exchange with) throws IOException, InterruptedException {
        try {
            with.send(ANSWER, with.controls() ? find(fields.id(), Optional.empty()) : inTurn(fields.id(), with.user()));
        } catch (RequestException e) {
            with.send(ControlProtocol.REFUSED, e.getMessage());
        }
    }

    private ReportedMigration inTurn(String id, String user)
            throws IOException, RequestException, InterruptedException {
        OwnersView view;
        try {
            view = new OwnersView(user, Accounts.uidOf(user));
        } catch (IOException e) {
            throw new RequestException("your user cannot be looked up: " + e.getMessage());
        }
        if (!turn.tryAcquire(TURN_LIMIT_S, TimeUnit.SECONDS)) {
            throw new RequestException("other users' reports are being made now. Remedy: try again later");
        }
        try {
            return find(id, Optional.of(view));
        } finally {
            turn.release();
        }
    }

    private ReportedMigration find(String prefix, Optional<OwnersView> view) throws RequestException {
        if (prefix.length() > MAX_ID) {
            throw new RequestException("a migration's name has at most " + MAX_ID + " characters. Remedy: shorten it");
        }
        try {
            List<String> names = view.isPresent()
                    ? MigrationHistory.namesOf(journal, view.get().uid(), prefix)
                    : MigrationHistory.namesBeginningWith(journal, prefix);
            if (names.isEmpty()) {
                throw new RequestException("there is no migration " + prefix + (view.isPresent() ? " of your jobs" : "")
                        + " in the journal of this service. Remedy: give the name that ppmr migrate has printed");
            }
            if (names.size() > 1 && !prefix.isEmpty()) {
                throw new RequestException(
                        "several migrations begin with " + prefix + ". Remedy: give more characters");
            }
            MigrationHistory found = MigrationHistory.find(journal, names.get(names.size() - 1))
                    .orElseThrow(() -> new RequestException(
                            "migration " + prefix + " was just removed from the journal. Remedy: name another one"));
            return ReportedMigration.of(view.map(owner -> owner.of(found)).orElse(found), samples(found.id()));
        } catch (IOException e) {
            // The message names the service's files.
            LOG.warn("a report is not made: {}", e.getMessage());
            throw new RequestException("the journal cannot be read. Remedy: see the service's log");
        }
    }

    private Optional<MigrationSamples> samples(String id) {
        try {
            return store.find(id);
        } catch (IOException e) {
            LOG.warn("a report has no curves: {}", e.getMessage());
            return Optional.empty();
        }
    }
}
