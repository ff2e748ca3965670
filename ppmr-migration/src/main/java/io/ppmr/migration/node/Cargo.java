package io.ppmr.migration.node;

import io.ppmr.checkpoint.files.CarriedFile;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.checkpoint.files.OpenedFile;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.LibC;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The files that move with a job, and their needs at both nodes. Owned by the comparison's thread. */
public final class Cargo {
    /** A target's answer about a path that its configuration does not list. */
    public static final String UNLISTED = "unlisted";

    /** A target's answer about a path with a file that its configuration does not allow to be replaced. */
    public static final String KEPT = "kept";

    private static final Pattern DATA = Pattern.compile("data (\\d{1,18})");
    private static final Pattern ROOM = Pattern.compile("room (\\d{1,10}:\\d{1,10}) (\\d{1,20}) ([01])");
    private static final int NOT_PERMITTED = 1;
    private static final int NOT_SUPPORTED = 95;
    private static final int FILE_EXISTS = 17;

    private final CarryPolicy policy;
    private final Map<Integer, Map<String, CarriedFile>> ranks = new TreeMap<>();
    /** The files of all ranks, by the paths that processes have open. */
    private final Map<String, CarriedFile> carried = new HashMap<>();

    /** Size by path at the target, because ranks may read the same file. */
    private final Map<String, Long> dataBytes = new HashMap<>();

    private final Map<String, Long> neededBytes = new HashMap<>();

    Cargo(CarryPolicy policy) {
        this.policy = policy;
    }

    void add(int rank, CarriedFile file) {
        carried.put(file.file().path(), file);
        ranks.computeIfAbsent(rank, unknown -> new LinkedHashMap<>())
                .put(file.file().path(), file);
    }

    /** Adds a file for another rank or process, after it was accepted for the first. */
    void addAlso(int rank, OpenedFile file) {
        CarriedFile judged = carried.get(file.path());
        if (judged != null && !ranks.getOrDefault(rank, Map.of()).containsKey(file.path())) {
            add(rank, new CarriedFile(file, judged.path(), judged.inode(), judged.device(), judged.replaces()));
        }
    }

    void remove(int rank, OpenedFile file) {
        ranks.get(rank).remove(file.path());
        carried.remove(file.path());
    }

    /** Returns the files of each rank, by the paths that its processes have open. */
    Map<Integer, Map<String, CarriedFile>> ranks() {
        return ranks;
    }

    long bytes() {
        return dataBytes.values().stream().mapToLong(Long::longValue).sum();
    }

    /**
     * Evaluates both nodes' answers about a file.
     *
     * @param path its path at the target
     * @param here this node's answer: the size, or why it cannot move
     * @param there the target's answer: the room, or why it cannot be written there
     * @return the refusal, or empty if the file can move
     */
    Optional<Refusal> evaluate(int rank, OpenedFile file, String path, String here, String there) {
        Matcher data = DATA.matcher(here);
        if (!data.matches()) {
            int error = FileFacts.error(here);
            return refused(
                    rank,
                    file,
                    error == NOT_SUPPORTED
                            ? "it has extended attributes or an access list, which ppmr does not copy"
                            : "its user cannot read it: " + LibC.describe(error),
                    error == NOT_SUPPORTED
                            ? "remove them (setfattr, setfacl -b), or share the folder between both nodes"
                            : "let the job's user read it");
        }
        Matcher room = ROOM.matcher(there);
        if (!room.matches()) {
            return refused(rank, file, whyNotThere(there), remedyThere(there));
        }
        Map<String, CarriedFile> all = ranks.get(rank);
        if (all.size() > CarryPolicy.MOST_FILES
                || all.keySet().stream().mapToInt(String::length).sum() > CarryPolicy.MOST_PATH_CHARS) {
            return refused(
                    rank,
                    file,
                    "a rank can move at most " + CarryPolicy.MOST_FILES + " files and " + CarryPolicy.MOST_PATH_CHARS
                            + " characters of names",
                    "share the folder between both nodes");
        }
        long bytes = Long.parseLong(data.group(1));
        Long before = dataBytes.put(path, bytes);
        if (bytes() > policy.copyLimit()) {
            return refused(
                    rank,
                    file,
                    "the files that move with the job have " + bytes() + " bytes, and copy_limit allows "
                            + policy.copyLimit(),
                    "raise copy_limit in [files] at both nodes, or share the folder");
        }
        long needed = neededBytes.merge(room.group(1), bytes - (before == null ? 0 : before), Long::sum);
        if (needed > Double.parseDouble(room.group(2))) {
            return refused(
                    rank,
                    file,
                    "the files that move with the job need " + needed + " bytes at the target, and its filesystem has "
                            + room.group(2) + " left",
                    "make room at the target, or name another spare node");
        }
        return Optional.empty();
    }

    private static String whyNotThere(String there) {
        int error = FileFacts.error(there);
        return switch (there) {
            case UNLISTED -> "the target's configuration does not allow a file there";
            case KEPT -> "the target has a file of that name, and its configuration does not allow to replace it";
            default ->
                "the job's user cannot write it there: "
                        + (error == NOT_PERMITTED
                                ? "the user is not in the file's group at the target"
                                : error == FILE_EXISTS
                                        ? "the name exists, and is no regular file of the user"
                                        : LibC.describe(error));
        };
    }

    private static String remedyThere(String there) {
        return switch (there) {
            case UNLISTED -> "name it in [files] copy of the target's configuration, too";
            case KEPT -> "remove that file, or set replace = true in [files] of the target's configuration, too";
            default -> "make the folder there, without links on the way, and let the job's user write to it";
        };
    }

    private static Optional<Refusal> refused(int rank, OpenedFile file, String why, String remedy) {
        return Optional.of(new Refusal(rank, file + ", which must move with the job (files.copy): " + why, remedy));
    }
}
