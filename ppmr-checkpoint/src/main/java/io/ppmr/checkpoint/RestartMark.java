package io.ppmr.checkpoint;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The mark in the environment of a restart, and of all processes that it starts. It identifies a process that left the
 * restart's session and lost its parent; proc_pid_environ(5). It counts only in a process of root or of the restart's
 * user. It is drawn at random and noted beside the restart's work directory before the restart starts. So a later run
 * of the service finds it. Immutable.
 *
 * @param token 32 hexadecimal digits
 * @param uid user of the restored processes
 */
record RestartMark(String token, int uid) {
    /** The environment variable that has the token. */
    static final String VARIABLE = "PPMR_RESTART=";

    static final int TOKEN_CHARS = 32;

    private static final SecureRandom RANDOM = new SecureRandom();
    private static final String SUFFIX = ".mark";
    private static final Pattern NOTE = Pattern.compile("(\\d{1,10}) ([0-9a-f]{32})\n");

    /** Draws the mark of one restart. */
    static RestartMark draw(JobUser user) {
        byte[] token = new byte[TOKEN_CHARS / 2];
        RANDOM.nextBytes(token);
        return new RestartMark(HexFormat.of().formatHex(token), user.uid());
    }

    /** Returns the environment variable with its value. */
    String variable() {
        return VARIABLE + token;
    }

    /**
     * Writes the mark to a note beside the restart's work directory, in the directory of the attempt, where no user can
     * write. The note is complete or missing, whenever the service is killed.
     */
    void note(Path workDirectory) throws IOException {
        Path part = workDirectory.resolveSibling(workDirectory.getFileName() + ".part");
        Files.writeString(part, Integer.toUnsignedString(uid) + " " + token + "\n", StandardCharsets.US_ASCII);
        Path whole = workDirectory.resolveSibling(workDirectory.getFileName() + SUFFIX);
        try {
            Files.move(part, whole, StandardCopyOption.ATOMIC_MOVE);
        } catch (AtomicMoveNotSupportedException e) {
            throw new IOException(whole + " cannot be written at once. Remedy: name a work_directory on a disk", e);
        }
    }

    /**
     * Returns the marks that are noted in the directory of an attempt.
     *
     * @throws IOException if a note cannot be read or is invalid
     */
    static List<RestartMark> noted(Path attempt) throws IOException {
        List<RestartMark> marks = new ArrayList<>();
        for (Path note : notes(attempt)) {
            Matcher words = NOTE.matcher(Files.readString(note, StandardCharsets.ISO_8859_1));
            if (!words.matches()) {
                throw new IOException(
                        note + " names no restart. Remedy: make sure that no process of this attempt runs,"
                                + " and remove " + attempt);
            }
            marks.add(new RestartMark(words.group(2), Integer.parseUnsignedInt(words.group(1))));
        }
        return marks;
    }

    /** Removes the notes in the directory of an attempt. */
    static void forget(Path attempt) throws IOException {
        for (Path note : notes(attempt)) {
            Files.deleteIfExists(note);
        }
    }

    private static List<Path> notes(Path attempt) throws IOException {
        List<Path> notes = new ArrayList<>();
        if (!Files.isDirectory(attempt)) {
            return notes;
        }
        try (DirectoryStream<Path> found = Files.newDirectoryStream(attempt, "*" + SUFFIX)) {
            found.forEach(notes::add);
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        return notes;
    }

    /**
     * Kills every process that has the mark, repeatedly until none is left, because one may fork while it is killed.
     */
    void endAll(ProcessTable table, SignalSender signals, Duration limit) throws CheckpointException {
        if (!signals.killAll(limit, () -> table.marked(this))) {
            throw new CheckpointException("the processes of user " + Integer.toUnsignedString(uid)
                    + " and of root with "
                    + variable() + " in their environment do not end. Remedy: a process in state D waits for its"
                    + " filesystem; abort that mount");
        }
    }
}
