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
 * Answers what a source wants to know of this node's files, by a process of the job's user that looks at them. Each
 * control connection has one, which its owner closes; one question at a time, on any thread.
 */
final class FileAnswers implements Closeable {
    private static final Logger LOG = LoggerFactory.getLogger(FileAnswers.class);
    private static final int MOST_PATHS = 1024;
    /** With the number of a group before it. */
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
     * @param whyNot says why this node looks at nothing for a user; empty if it does
     * @param ignored whether other files are no reason to refuse a job here
     * @param lost whether the connection ended: then nothing is read. Any thread
     * @param carry which files of jobs may be put at their places here
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

    /** Answers on a thread of its own; throws if an answer is under way. */
    void answerLater(InspectFiles question, ControlLink link) throws ProtocolException {
        if (!busy.compareAndSet(false, true)) {
            throw new ProtocolException("the source asks about files before it is answered: it is broken");
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

    /** Looks, and says what is there or why not. */
    synchronized FilesInspected answer(InspectFiles question) {
        try {
            JobUser asked = new JobUser(question.uid(), question.gid());
            Optional<String> why = user == null ? whyNot.apply(asked) : Optional.empty();
            if (why.isPresent()) {
                return failed(why.get());
            }
            if (user != null && !user.equals(asked)) {
                return failed("it was asked for another user before on this connection: the source is broken");
            }
            if (question.paths().size() > MOST_PATHS
                    || question.paths().stream()
                            .anyMatch(path -> path.length() > LONGEST_PATH || path.indexOf('\0') >= 0)) {
                return failed("it was asked for too many paths at once, or for one that is none: the source is broken");
            }
            user = asked;
            if (looker == null) {
                looker = FileLooker.start(programs, asked, digests, () -> closed || lost.getAsBoolean());
            }
            return new FilesInspected(FileComparison.kernel(), ignored, lines(question), "");
        } catch (CheckpointException e) {
            return failed(String.valueOf(e.getMessage()));
        } catch (RuntimeException e) {
            LOG.error("a question about files cannot be answered", e);
            return failed("it cannot answer what was asked about files: " + e);
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
            case 'w' -> rooms(question.paths());
            default -> throw new CheckpointException("it was asked what this release does not know");
        };
    }

    /** This node's operator says where files may be put: the source's is not asked for that. */
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

    /** Ends the process that looks; an answer under way fails. */
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
