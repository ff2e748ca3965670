package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.ContentDigests;
import io.ppmr.checkpoint.FileLooker;
import io.ppmr.checkpoint.FileLooker.Question;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.migration.node.Cargo;
import io.ppmr.migration.node.FileComparison;
import io.ppmr.protocol.control.ControlMessage.FilesInspected;
import io.ppmr.protocol.control.ControlMessage.InspectFiles;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.ControlLink;
import java.io.Closeable;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers a source's queries about this node's files, by a process of the job's user that reads them. Each control
 * connection has one, which its owner closes. It answers one query at a time, on any thread.
 */
final class FileAnswers implements Closeable {
    private static final Logger LOG = LoggerFactory.getLogger(FileAnswers.class);
    private static final int MOST_PATHS = 1024;
    /** Maximum length of a path with a group's number before it. */
    private static final int LONGEST_PATH = 4096 + 16;

    private static final String TAKEN = " 1";

    private final NativePrograms programs;
    private final ContentDigests digests;
    private final Function<JobUser, Optional<String>> whyNot;
    private final boolean ignored;
    private final BooleanSupplier lost;
    private final CarryPolicy carry;
    private final AtomicBoolean busy = new AtomicBoolean();
    private FileLooker looker;
    private JobUser user;
    private volatile boolean closed;

    /**
     * @param whyNot returns why this node reads no file for a user, or empty if it does
     *
     * @param ignored whether other files are no reason to refuse a job here
     * @param lost whether the connection ended, so that no file is read; any thread
     * @param carry the files of jobs that may be placed here
     */
    FileAnswers(
            NativePrograms programs,
            ContentDigests digests,
            Function<JobUser, Optional<String>> whyNot,
            boolean ignored,
            BooleanSupplier lost,
            CarryPolicy carry) {
        this.programs = programs;
        this.digests = digests;
        this.whyNot = whyNot;
        this.ignored = ignored;
        this.lost = lost;
        this.carry = carry;
    }

    /** Answers on its own thread. Throws if an answer is under way. */
    void answerLater(InspectFiles question, ControlLink link) throws ProtocolException {
        if (!busy.compareAndSet(false, true)) {
            throw new ProtocolException("the source sent a query about files before the last answer: it is broken");
        }
        Thread thread = new Thread(
                () -> {
                    try {
                        FilesInspected seen;
                        try {
                            seen = answer(question);
                        } finally {
                            busy.set(false);
                        }
                        link.send(seen);
                    } catch (IOException e) {
                        LOG.debug("an answer about files is no longer needed: {}", e.toString());
                    }
                },
                "ppmr-file-answers");
        thread.setDaemon(true);
        thread.start();
    }

    /** Reads the files, and returns their facts or the error. */
    synchronized FilesInspected answer(InspectFiles question) {
        try {
            JobUser asker = new JobUser(question.uid(), question.gid());
            Optional<String> why = user == null ? whyNot.apply(asker) : Optional.empty();
            if (why.isPresent()) {
                return failed(why.get());
            }
            if (user != null && !user.equals(asker)) {
                return failed("the query's user differs from the connection's first: the source is broken");
            }
            if (question.paths().size() > MOST_PATHS
                    || question.paths().stream()
                            .anyMatch(path -> path.length() > LONGEST_PATH || path.indexOf('\0') >= 0)) {
                return failed("the query has too many or invalid paths: the source is broken");
            }
            user = asker;
            if (looker == null) {
                looker = FileLooker.start(programs, asker, digests, () -> closed || lost.getAsBoolean());
            }
            return new FilesInspected(FileComparison.kernel(), ignored, lines(question), "");
        } catch (CheckpointException e) {
            return failed(String.valueOf(e.getMessage()));
        } catch (RuntimeException e) {
            LOG.error("a query about files could not be answered", e);
            return failed("the query about files could not be answered: " + e);
        }
    }

    private static FilesInspected failed(String why) {
        return new FilesInspected("", false, List.of(), why);
    }

    private List<String> lines(InspectFiles question) throws CheckpointException {
        List<Question> files =
                question.paths().stream().map(path -> new Question("", path)).toList();
        return switch (question.kind()) {
            case 's' -> looker.look(files);
            case 'l' -> looker.lookAgain(files);
            case 'c' -> contents(files, true);
            case 'd' -> contents(files, false);
            case 'u' -> looker.bound(files);
            case 'w' -> rooms(question.paths());
            default -> throw new CheckpointException("this release does not know that kind of query");
        };
    }

    /**
     * Returns the room for files. Only this node's configuration decides where files may be placed, not the source's.
     */
    private List<String> rooms(List<String> questions) throws CheckpointException {
        List<String> rooms = new ArrayList<>();
        for (String question : questions) {
            int space = question.indexOf(' ');
            String path = question.substring(space + 1);
            if (space < 1 || !carry.names(path)) {
                rooms.add(Cargo.UNLISTED);
                continue;
            }
            String line = looker.room(List.of(new Question(question.substring(0, space), path)))
                    .get(0);
            rooms.add(line.endsWith(TAKEN) && FileFacts.error(line) == 0 && !carry.replace() ? Cargo.KEPT : line);
        }
        return rooms;
    }

    private List<String> contents(List<Question> files, boolean byId) throws CheckpointException {
        List<String> contents = new ArrayList<>();
        for (Question file : files) {
            String line = looker.look(List.of(file)).get(0);
            Optional<FileFacts> facts = FileFacts.parse(line);
            if (facts.isEmpty()) {
                contents.add(line);
            } else {
                Duration limit = FileComparison.contentLimit(facts.get().lengthBytes());
                contents.add(looker.content(file, facts.get(), byId, limit));
            }
        }
        return contents;
    }

    /** Ends the process that reads files. A current answer fails. */
    @Override
    public void close() {
        closed = true;
        synchronized (this) {
            if (looker != null) {
                looker.close();
                looker = null;
            }
        }
    }
}
