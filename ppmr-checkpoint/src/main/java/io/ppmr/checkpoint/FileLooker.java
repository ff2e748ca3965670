package io.ppmr.checkpoint;

import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.checkpoint.sharing.EscapedName;
import io.ppmr.linux.LibC;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/**
 * Inspects files as a job's user, by a process ({@code ppmr-look}) that is killed when it does not answer in time. The
 * server of a filesystem may hang, and root may have less access than the user. Owned by one thread, which closes it.
 */
public final class FileLooker implements Closeable {
    /** The answer for a file that may be opened. */
    public static final String YES = "yes";

    /** Time limit of one query, in addition to the time for content that it reads. */
    public static final Duration ANSWER_LIMIT = Duration.ofSeconds(20);

    /**
     * Time limit of a flush. A node can have tens of gigabytes of a file in its memory that its server does not have.
     */
    private static final Duration FLUSH_LIMIT = Duration.ofMinutes(5);

    private static final int PIECE_BYTES = 1 << 16;
    private static final int PIECE_HEAD_BYTES = Integer.BYTES + Long.BYTES;

    /**
     * A query about a file. A character from 0 to 255 stands for each byte.
     *
     * @param first the path that is tried first; may be empty
     * @param path the path that is tried then
     */
    public record Question(String first, String path) {}

    private final HelperConversation helper;
    private final String user;
    private final ContentDigests digests;
    private final Duration limit;

    private FileLooker(HelperConversation helper, String user, ContentDigests digests, Duration limit) {
        this.helper = helper;
        this.user = user;
        this.digests = digests;
        this.limit = limit;
    }

    /**
     * Starts a process of the job's user.
     *
     * @param digests digests of files that were read before
     * @param over checked repeatedly; returns true if no more answers are needed
     */
    public static FileLooker start(NativePrograms programs, JobUser user, ContentDigests digests, BooleanSupplier over)
            throws CheckpointException {
        return start(programs, user, digests, over, ANSWER_LIMIT);
    }

    /** Starts a process with another limit for each query. */
    static FileLooker start(
            NativePrograms programs, JobUser user, ContentDigests digests, BooleanSupplier over, Duration limit)
            throws CheckpointException {
        return start(programs, Optional.of(user), List.of(), digests, over, limit);
    }

    /** Starts a process of root, which only flushes the files of processes to their disks or servers. */
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
        HelperConversation helper = new HelperConversation(
                kit.starter().converse(command),
                "the files of the job cannot be inspected as " + name + " (ppmr-look)",
                FileFacts.LONGEST_LINE,
                over);
        return new FileLooker(helper, name, digests, limit);
    }

    /** Inspects each path. Returns a line for {@link FileFacts#parse} or {@link FileFacts#error}. */
    public List<String> look(List<Question> files) throws CheckpointException {
        return lines('s', files);
    }

    /** Inspects each path, and opens each regular file. Clients of network filesystems then query their servers. */
    public List<String> lookAgain(List<Question> files) throws CheckpointException {
        return lines('l', files);
    }

    /** Inspects each path after this node's unwritten data of it is flushed to its disk or server. */
    public List<String> sync(List<Question> files) throws CheckpointException {
        return lines('y', files);
    }

    /**
     * Returns for each file whether the user may open it: {@link #YES}, or a line for {@link FileFacts#error}.
     *
     * @param files each with the mode as its first text: {@code r} and {@code w} or {@code -}; {@code --} for a
     *     search
     */
    public List<String> mayOpen(List<Question> files) throws CheckpointException {
        return lines('a', files);
    }

    /** Returns for each path whether a Unix socket of a process is bound to that file, as {@link #mayOpen}. */
    public List<String> bound(List<Question> files) throws CheckpointException {
        return lines('u', files);
    }

    /** For a {@link #flusher}: flushes a process's file to its disk or server, and returns its length after that. */
    public String flush(int pid, String descriptor) throws CheckpointException {
        return lines('f', List.of(new Question(Integer.toString(pid), descriptor)))
                .get(0);
    }

    private List<String> lines(char letter, List<Question> files) throws CheckpointException {
        AtomicInteger answered = new AtomicInteger();
        return helper.runWithin(limit, () -> about(letter, files, answered.get()), () -> {
            ask(letter, files);
            List<String> found = new ArrayList<>(files.size());
            for (int i = 0; i < files.size(); i++) {
                found.add(helper.readLine());
                answered.incrementAndGet();
            }
            return found;
        });
    }

    /** Returns the query without an answer. Each answer is sent before the next file is inspected. */
    private static String about(char letter, List<Question> files, int answered) {
        Question pending = files.get(Math.min(answered, files.size() - 1));
        return letter == 'f'
                ? "descriptor " + pending.path() + " of PID " + pending.first()
                : EscapedName.text(pending.path());
    }

    /**
     * Returns the content of a regular file: {@code id} with an ELF file's build ID and its length, or {@code sha256}
     * with the digest and the length. On an error, it is a line for {@link FileFacts#error}.
     *
     * @param facts earlier facts of the file; an unchanged file is not read again
     * @param byId whether an ELF file's build ID suffices, which the file's maker chose
     * @param most time limit
     */
    public String content(Question file, FileFacts facts, boolean byId, Duration most) throws CheckpointException {
        Optional<String> known = digests.of(user, byId, facts);
        if (known.isPresent()) {
            return known.get();
        }
        FileFacts[] read = new FileFacts[1];
        char letter = byId ? 'c' : 'd';
        String content = helper.runWithin(most, () -> about(letter, List.of(file), 0), () -> {
            ask(letter, List.of(file));
            String first = helper.readLine();
            Optional<FileFacts> found = FileFacts.parse(first);
            if (found.isEmpty()) {
                return first;
            }
            read[0] = found.get();
            String kind = helper.readLine();
            String length = " " + found.get().lengthBytes();
            if (kind.startsWith("id ")) {
                return kind + length;
            }
            String digest = digest(kind);
            String last = helper.readLine();
            return last.equals("end") ? "sha256 " + digest + length : last;
        });
        if (read[0] != null && FileFacts.error(content) == 0) {
            digests.add(user, byId, read[0], content);
        }
        return content;
    }

    /** Returns the size of each file without its holes: {@code data BYTES}, or a line for {@link FileFacts#error}. */
    public List<String> dataBytes(List<Question> files) throws CheckpointException {
        return lines('n', files);
    }

    /**
     * Returns for each path whether a file can be made there, or replace the user's own. The answer is
     * {@code room DEVICE BYTES TAKEN} with the free space of its filesystem, and 1 if that file exists. Otherwise it is
     * a line for {@link FileFacts#error}.
     *
     * @param files the group that the file must have, and its path
     */
    public List<String> room(List<Question> files) throws CheckpointException {
        return lines('w', files);
    }

    /** Receives a file's content without its holes, in order, on a thread of the looker. */
    public interface Runs {
        /** Receives the file's facts before its content. Throws if it is the wrong file. */
        void begin(FileFacts facts) throws IOException;

        /** Receives a piece of the file. */
        void piece(long offset, byte[] bytes, int length) throws IOException;
    }

    /**
     * Reads a regular file without its holes.
     *
     * @param most time limit
     */
    public void read(Question file, Runs runs, Duration most) throws CheckpointException {
        helper.runWithin(most, () -> about('r', List.of(file), 0), () -> {
            ask('r', List.of(file));
            String first = helper.readLine();
            runs.begin(FileFacts.parse(first).orElseThrow(() -> unread(first)));
            byte[] piece = new byte[PIECE_BYTES];
            while (true) {
                ByteBuffer head = ByteBuffer.wrap(helper.readExactly(piece, PIECE_HEAD_BYTES))
                        .order(ByteOrder.nativeOrder());
                int bytes = head.getInt();
                long offset = head.getLong();
                if (bytes == 0) {
                    break;
                }
                if (bytes < 0 || bytes > PIECE_BYTES || offset < 0) {
                    throw HelperConversation.noAnswer();
                }
                runs.piece(offset, helper.readExactly(piece, bytes), bytes);
            }
            String last = helper.readLine();
            if (!last.equals("end")) {
                throw unread(last);
            }
            return null;
        });
    }

    private static IOException unread(String line) {
        return new IOException("a file cannot be read: " + LibC.describe(FileFacts.error(line)));
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
        helper.send(text.toString());
    }

    private String digest(String kind) throws IOException {
        if (!kind.equals("bytes")) {
            throw HelperConversation.noAnswer();
        }
        MessageDigest sum;
        try {
            sum = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
        byte[] piece = new byte[PIECE_BYTES];
        while (true) {
            int bytes = ByteBuffer.wrap(helper.readExactly(new byte[Integer.BYTES], Integer.BYTES))
                    .order(ByteOrder.nativeOrder())
                    .getInt();
            if (bytes == 0) {
                return HexFormat.of().formatHex(sum.digest());
            }
            if (bytes < 0 || bytes > PIECE_BYTES) {
                throw HelperConversation.noAnswer();
            }
            sum.update(helper.readExactly(piece, bytes), 0, bytes);
        }
    }

    /** Ends the process. */
    @Override
    public void close() {
        helper.close();
    }
}
