package io.ppmr.checkpoint;

import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.checkpoint.sharing.Shown;
import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks at files as a job's user, by a process ({@code ppmr-look}) that is killed when it does not answer in time: the
 * server of a filesystem may hang, and root may see less than the user does. Owned by one thread, which closes it.
 */
public final class FileLooker implements Closeable {
    private static final Logger LOG = LoggerFactory.getLogger(FileLooker.class);

    /** The answer where a file may be opened. */
    public static final String YES = "yes";

    /** The time that one question may take, besides the content that is read for it. */
    public static final Duration ANSWER_LIMIT = Duration.ofSeconds(20);

    /** A node can have tens of gigabytes of a file in its memory that its server has not. */
    private static final Duration FLUSH_LIMIT = Duration.ofMinutes(5);

    private static final int LONGEST_LINE = FileFacts.LONGEST_LINE;
    private static final long SLICE_MS = 20;
    private static final int PIECE_BYTES = 1 << 16;

    /**
     * A question about a file, by bytes that stand as characters from 0 to 255.
     *
     * @param first the path that is tried first; may be empty
     * @param path the path that is tried then
     */
    public record Question(String first, String path) {}

    private final Process process;
    private final OutputStream questions;
    private final InputStream answers;
    private final String user;
    private final ContentDigests digests;
    private final BooleanSupplier over;
    private final Duration limit;
    private boolean broken;

    private FileLooker(Process process, String user, ContentDigests digests, BooleanSupplier over, Duration limit) {
        this.process = process;
        this.questions = process.getOutputStream();
        this.answers = new BufferedInputStream(process.getInputStream(), PIECE_BYTES);
        this.user = user;
        this.digests = digests;
        this.over = over;
        this.limit = limit;
    }

    /**
     * Starts one.
     *
     * @param digests of what was read before
     * @param over asked again and again: nothing more is wanted
     */
    public static FileLooker start(NativePrograms programs, JobUser user, ContentDigests digests, BooleanSupplier over)
            throws CheckpointException {
        return start(programs, user, digests, over, ANSWER_LIMIT);
    }

    /** With another limit for each question. */
    static FileLooker start(
            NativePrograms programs, JobUser user, ContentDigests digests, BooleanSupplier over, Duration limit)
            throws CheckpointException {
        return start(programs, Optional.of(user), List.of(), digests, over, limit);
    }

    /** Starts one of root's, which does nothing but write the files of processes to their disks or servers. */
    public static FileLooker flusher(NativePrograms programs, BooleanSupplier over) throws CheckpointException {
        return start(programs, Optional.empty(), List.of("--flush"), new ContentDigests(), over, FLUSH_LIMIT);
    }

    private static FileLooker start(
            NativePrograms programs,
            Optional<JobUser> user,
            List<String> words,
            ContentDigests digests,
            BooleanSupplier over,
            Duration limit)
            throws CheckpointException {
        ToolKit kit = ToolKit.of(programs, RankCommand.Timing.defaults());
        List<String> command = new ArrayList<>(kit.launch(user));
        command.add(programs.look().toString());
        command.addAll(words);
        String name =
                user.map(one -> "user " + Integer.toUnsignedString(one.uid())).orElse("root");
        return new FileLooker(kit.starter().converse(command), name, digests, over, limit);
    }

    /** Returns what lies at each path: a line for {@link FileFacts#parse} or {@link FileFacts#error}. */
    public List<String> look(List<Question> files) throws CheckpointException {
        return lines('s', files);
    }

    /** The same, and each regular file is opened for that: clients of network filesystems ask their servers then. */
    public List<String> lookAgain(List<Question> files) throws CheckpointException {
        return lines('l', files);
    }

    /** The same, after what this node has of the files in memory is written to their disks or servers. */
    public List<String> sync(List<Question> files) throws CheckpointException {
        return lines('y', files);
    }

    /**
     * Returns for each whether the user may open it, {@link #YES} or a line for {@link FileFacts#error}.
     *
     * @param files each with the way as its first text: {@code r} and {@code w} or {@code -}; {@code --} is to pass it
     */
    public List<String> mayOpen(List<Question> files) throws CheckpointException {
        return lines('a', files);
    }

    /** For a {@link #flusher}: writes a process's file to its disk or server, and gives its length then. */
    public String flush(int pid, String descriptor) throws CheckpointException {
        return lines('f', List.of(new Question(Integer.toString(pid), descriptor)))
                .get(0);
    }

    private List<String> lines(char letter, List<Question> files) throws CheckpointException {
        AtomicInteger answered = new AtomicInteger();
        return within(limit, () -> about(letter, files, answered.get()), () -> {
            ask(letter, files);
            List<String> found = new ArrayList<>(files.size());
            for (int i = 0; i < files.size(); i++) {
                found.add(line());
                answered.incrementAndGet();
            }
            return found;
        });
    }

    /** The question that has no answer: each answer comes before the next file is looked at. */
    private static String about(char letter, List<Question> files, int answered) {
        Question asked = files.get(Math.min(answered, files.size() - 1));
        return letter == 'f' ? "descriptor " + asked.path() + " of PID " + asked.first() : Shown.text(asked.path());
    }

    /**
     * Returns what a regular file's content is: {@code id} with an ELF file's build ID and its length, {@code sha256}
     * with the digest and the length, or a line for {@link FileFacts#error}.
     *
     * @param facts what was seen of the file before; what was read of one that has not changed is not read again
     * @param byId whether an ELF file's build ID is enough, which the file's maker chose
     * @param most how long that may take
     */
    public String content(Question file, FileFacts facts, boolean byId, Duration most) throws CheckpointException {
        Optional<String> known = digests.of(user, byId, facts);
        if (known.isPresent()) {
            return known.get();
        }
        FileFacts[] read = new FileFacts[1];
        char letter = byId ? 'c' : 'd';
        String content = within(most, () -> about(letter, List.of(file), 0), () -> {
            ask(letter, List.of(file));
            String first = line();
            Optional<FileFacts> found = FileFacts.parse(first);
            if (found.isEmpty()) {
                return first;
            }
            read[0] = found.get();
            String kind = line();
            String length = " " + found.get().lengthBytes();
            if (kind.startsWith("id ")) {
                return kind + length;
            }
            String digest = digest(kind);
            String last = line();
            return last.equals("end") ? "sha256 " + digest + length : last;
        });
        if (read[0] != null && FileFacts.error(content) == 0) {
            digests.add(user, byId, read[0], content);
        }
        return content;
    }

    private void ask(char letter, List<Question> files) throws IOException {
        StringBuilder text = new StringBuilder();
        for (Question file : files) {
            if (file.first().indexOf('\0') >= 0 || file.path().indexOf('\0') >= 0) {
                throw new IOException("a path with a NUL in it");
            }
            text.append(letter).append(file.first()).append('\0');
            text.append(file.path()).append('\0');
        }
        text.append('.');
        questions.write(text.toString().getBytes(StandardCharsets.ISO_8859_1));
        questions.flush();
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int next = answers.read(); next != '\n'; next = answers.read()) {
            if (next < 0) {
                throw new EOFException("it has ended");
            }
            if (line.length() == LONGEST_LINE) {
                throw new IOException("it says something that is no answer");
            }
            line.append((char) next);
        }
        return line.toString();
    }

    private String digest(String kind) throws IOException {
        if (!kind.equals("bytes")) {
            throw new IOException("it says something that is no answer");
        }
        MessageDigest sum;
        try {
            sum = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
        byte[] piece = new byte[PIECE_BYTES];
        while (true) {
            int bytes = ByteBuffer.wrap(exactly(new byte[Integer.BYTES], Integer.BYTES))
                    .order(ByteOrder.nativeOrder())
                    .getInt();
            if (bytes == 0) {
                return HexFormat.of().formatHex(sum.digest());
            }
            if (bytes < 0 || bytes > PIECE_BYTES) {
                throw new IOException("it says something that is no answer");
            }
            sum.update(exactly(piece, bytes), 0, bytes);
        }
    }

    private byte[] exactly(byte[] into, int bytes) throws IOException {
        if (answers.readNBytes(into, 0, bytes) < bytes) {
            throw new EOFException("it has ended");
        }
        return into;
    }

    /**
     * Has another thread ask, which may hang with the process in the kernel.
     *
     * @param about tells what has no answer yet
     */
    private <T> T within(Duration most, Supplier<String> about, Callable<T> asks) throws CheckpointException {
        if (broken) {
            throw failure("it has failed before", null);
        }
        FutureTask<T> asking = new FutureTask<>(asks);
        Thread thread = new Thread(asking, "file-look");
        thread.setDaemon(true);
        thread.start();
        long deadlineNs = System.nanoTime() + most.toNanos();
        boolean answered = false;
        try {
            while (System.nanoTime() - deadlineNs < 0 && !over.getAsBoolean()) {
                try {
                    T answer = asking.get(SLICE_MS, TimeUnit.MILLISECONDS);
                    answered = true;
                    return answer;
                } catch (TimeoutException e) {
                    LOG.trace("no answer yet", e);
                }
            }
            throw over.getAsBoolean()
                    ? new CheckpointException("the look at the job's files was called off")
                    : failure("no answer about " + about.get() + " for " + most.toSeconds() + " s", null);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw failure("the service ends", e);
        } catch (ExecutionException e) {
            throw failure(String.valueOf(e.getCause().getMessage()), e.getCause());
        } finally {
            if (!answered) {
                broken = true;
                process.destroyForcibly();
            }
        }
    }

    private CheckpointException failure(String why, Throwable cause) {
        return new CheckpointException(
                "the files of the job cannot be looked at as " + user + " (ppmr-look): " + why
                        + ". Remedy: see whether a filesystem's server does not answer on this node",
                cause);
    }

    /** Ends the process. */
    @Override
    public void close() {
        process.destroyForcibly();
    }
}
