package io.ppmr.checkpoint;

import io.ppmr.linux.LibC;
import io.ppmr.linux.UninterruptedWait;
import java.io.Closeable;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Places the files of a job, and removes them again, as the job's user. It uses a process ({@code ppmr-place}) that is
 * killed when it does not answer in time. The process is a child of the service, and ends with the thread that started
 * it. Owned by that thread, which closes it.
 */
public final class FilePlacer implements Closeable {
    private static final Logger LOG = LoggerFactory.getLogger(FilePlacer.class);

    /** Time limit of a query, in addition to the time for each file. */
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(20);

    private static final Duration FILE_LIMIT = Duration.ofMillis(200);

    /** Maximum length of a line, which names the identities of all files of a rank. */
    private static final int LONGEST_LINE = 1 << 17;

    private static final Pattern IDENTITY = Pattern.compile("\\d+:-?\\d+\\.\\d+:\\d+:-?\\d+\\.\\d+:\\d+");
    private static final Pattern FAILED = Pattern.compile("failed (\\d{1,4}) (\\d{1,4})");
    private static final String WRITTEN = "written";

    /** Provides the stream of the files, one piece for each call. */
    @FunctionalInterface
    public interface Content {
        /** Fills the beginning of the buffer and returns the number of bytes; 0 at the end. */
        int next(byte[] buffer) throws IOException;
    }

    private final HelperConversation helper;
    private FilePlacement placement;

    private FilePlacer(HelperConversation helper, FilePlacement placement) {
        this.helper = helper;
        this.placement = placement;
    }

    /**
     * Starts a process for the files of one rank.
     *
     * @param over checked repeatedly; returns true if no more answers are needed
     */
    public static FilePlacer start(NativePrograms programs, FilePlacement placement, BooleanSupplier over)
            throws CheckpointException {
        ToolKit kit = ToolKit.of(programs, RankCommand.Timing.defaults());
        JobUser user = placement.user();
        List<String> command = new ArrayList<>(kit.launch(Optional.of(user)));
        command.add(programs.place().toString());
        command.add(Long.toString(ProcessHandle.current().pid()));
        HelperConversation helper = new HelperConversation(
                CommandStarter.piped(command),
                "the files of the job cannot be placed as user " + Integer.toUnsignedString(user.uid())
                        + " (ppmr-place)",
                LONGEST_LINE,
                over);
        FilePlacer placer = new FilePlacer(helper, placement);
        try {
            placer.note();
            return placer;
        } catch (CheckpointException | RuntimeException e) {
            placer.close();
            throw e;
        }
    }

    private void note() throws CheckpointException {
        StringBuilder text = new StringBuilder();
        List<FilePlacement.PlacedFile> entries = placement.entries();
        for (int index = 0; index < entries.size(); index++) {
            FilePlacement.PlacedFile entry = entries.get(index);
            text.append('e').append(placement.temporaryName(index)).append('\0');
            text.append(entry.path()).append('\0');
            text.append(entry.replaces() ? '1' : '0').append('\0');
            text.append(entry.identity()).append('\0');
        }
        helper.runWithin(answerLimit(), this::about, () -> {
            helper.send(text.toString());
            return null;
        });
    }

    /** Returns the process, for a note of processes to end. */
    public int pid() {
        return helper.pid();
    }

    /**
     * Writes all files under their temporary names. They are on the disk after that.
     *
     * @param most time limit
     * @return the placement with the identities of the files
     */
    public FilePlacement write(Content content, Duration most) throws CheckpointException {
        String line = helper.runWithin(most, this::about, () -> {
            helper.send("p");
            byte[] buffer = new byte[1 << 16];
            for (int bytes = content.next(buffer); bytes > 0; bytes = content.next(buffer)) {
                helper.write(buffer, bytes);
            }
            helper.flush();
            return helper.readLine();
        });
        requireNoFailure(line);
        String[] words = line.split(" ", -1);
        if (!words[0].equals(WRITTEN)
                || words.length != placement.entries().size() + 1
                || !List.of(words).subList(1, words.length).stream()
                        .allMatch(word -> IDENTITY.matcher(word).matches())) {
            throw new CheckpointException("ppmr-place sent an invalid answer: the installation is broken");
        }
        placement = placement.withIdentities(List.of(words).subList(1, words.length));
        return placement;
    }

    /** Moves all files to their names. */
    public void place() throws CheckpointException {
        require('g', "placed");
    }

    /** Throws unless each file still has its name. */
    public void verify() throws CheckpointException {
        require('v', "placed");
    }

    /** Removes all files, and restores the replaced ones. */
    public void undo() throws CheckpointException {
        require('u', "undone");
    }

    /** Removes the replaced files. */
    public void finish() throws CheckpointException {
        require('f', "finished");
    }

    /** Gives each socket the temporary name, too. */
    void keepNames() throws CheckpointException {
        require('k', "kept");
    }

    /** Gives each socket its first name again, and removes the temporary one. */
    void bringNamesBack() throws CheckpointException {
        require('b', "back");
    }

    /** Removes the temporary names of the sockets. */
    void dropNames() throws CheckpointException {
        require('d', "dropped");
    }

    private Duration answerLimit() {
        return ANSWER_LIMIT.plus(FILE_LIMIT.multipliedBy(placement.entries().size()));
    }

    private String about() {
        return placement.entries().get(0).shown()
                + (placement.entries().size() == 1
                        ? ""
                        : " and " + (placement.entries().size() - 1) + " more files");
    }

    private void require(char question, String answer) throws CheckpointException {
        String line = helper.runWithin(answerLimit(), this::about, () -> {
            helper.send(String.valueOf(question));
            return helper.readLine();
        });
        requireNoFailure(line);
        if (!line.equals(answer)) {
            throw new CheckpointException("ppmr-place sent an invalid answer: the installation is broken");
        }
    }

    private void requireNoFailure(String line) throws CheckpointException {
        Matcher failed = FAILED.matcher(line);
        if (failed.matches()) {
            int index = Integer.parseInt(failed.group(1));
            String path = index < placement.entries().size()
                    ? placement.entries().get(index).shown()
                    : "a file";
            throw new CheckpointException(path + " cannot be placed on this node: "
                    + LibC.describe(Integer.parseInt(failed.group(2)))
                    + ". Remedy: do not change the folder and the name while the job is moved, and make room"
                    + " in its filesystem");
        }
    }

    /** Kills the process, and waits until it is gone. Returns false if it is not gone in time. Any thread. */
    public boolean end(Duration most) throws InterruptedException {
        return helper.end(most);
    }

    /** Kills the process, and waits until it is gone, because another one may then use the same files. */
    @Override
    public void close() {
        if (!UninterruptedWait.of(() -> helper.end(ANSWER_LIMIT))) {
            LOG.error("ppmr-place, PID {}, does not end: its filesystem hangs", helper.pid());
        }
    }
}
