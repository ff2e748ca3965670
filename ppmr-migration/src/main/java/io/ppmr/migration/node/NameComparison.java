package io.ppmr.migration.node;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.FileLooker;
import io.ppmr.checkpoint.FileLooker.Question;
import io.ppmr.checkpoint.files.BoundNames;
import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.checkpoint.files.FileRules;
import io.ppmr.checkpoint.files.FileRules.FileDecision;
import io.ppmr.checkpoint.files.OpenedFile;
import io.ppmr.checkpoint.files.OpenedFiles;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.ControlMessage.FilesInspected;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compares the names of the ranks' Unix sockets with the files of these names at the target. A restart removes such a
 * file, even if the socket lost its name before. Owned by a {@link FileComparison}.
 */
final class NameComparison {
    private static final Logger LOG = LoggerFactory.getLogger(NameComparison.class);
    private static final int PAGE_NAMES = 100;
    private static final int MISSING = 2;

    /** Sends a query to the other node. */
    @FunctionalInterface
    interface TargetQuery {
        FilesInspected ask(char kind, List<String> paths) throws IOException, CheckpointException, InterruptedException;
    }

    /**
     * A name that a restart removes, with the facts of the file that has it here.
     *
     * @param path the name, without the kernel's mark of a removed one
     * @param former whether the socket lost it, as far as the kernel shows
     */
    private record Name(OpenedFile file, String path, boolean former, Optional<FileFacts> here) {
        boolean isOfSocket() {
            return here.isPresent() && BoundNames.hasName(file, here.get());
        }

        String folder() {
            return path.substring(0, Math.max(1, path.lastIndexOf('/')));
        }
    }

    private final FileLooker looker;
    private final Predicate<String> compared;
    private final TargetQuery target;
    private final Function<String, FileRules> rules;
    /** The compared names by socket, each with its path if both nodes share that file. */
    private final Map<String, Optional<String>> known = new HashMap<>();

    /**
     * @param looker reads files here, as the job's user
     *
     * @param compared returns true for a path whose file exists on each node
     * @param target the other node
     * @param rules returns the rules for files of this node and of one with the given kernel
     */
    NameComparison(
            FileLooker looker, Predicate<String> compared, TargetQuery target, Function<String, FileRules> rules) {
        this.looker = looker;
        this.compared = compared;
        this.target = target;
        this.rules = rules;
    }

    /** Compares the names of a rank that were not compared before. Returns why they prevent the move. */
    List<Refusal> compare(int rank, List<ProcessIdentity> processes)
            throws IOException, CheckpointException, InterruptedException {
        Map<String, OpenedFile> all = namesOf(processes);
        Set<String> present = new HashSet<>();
        all.values().stream()
                .filter(file -> !file.seemsUnnamed())
                .map(OpenedFile::path)
                .forEach(present::add);
        all.keySet().removeAll(known.keySet());
        List<OpenedFile> left = List.copyOf(all.values());
        List<Refusal> refusals = new ArrayList<>();
        for (int from = 0; from < left.size(); from += PAGE_NAMES) {
            List<Name> page = new ArrayList<>();
            for (Name name : look(left.subList(from, Math.min(left.size(), from + PAGE_NAMES)))) {
                if (name.former() && present.contains(name.path())) {
                    // Another socket of the rank has that name now.
                    known.put(keyOf(name.file()), Optional.empty());
                } else {
                    page.add(name);
                }
            }
            comparePage(rank, page, refusals);
        }
        return refusals;
    }

    private Map<String, OpenedFile> namesOf(List<ProcessIdentity> processes) throws IOException {
        BoundNames bound = new BoundNames();
        Map<String, OpenedFile> all = new LinkedHashMap<>();
        for (ProcessIdentity process : processes) {
            bound.read(process.pid(), file -> {
                if (compared.test(file.path())) {
                    all.putIfAbsent(keyOf(file), file);
                }
            });
        }
        return all;
    }

    private static String keyOf(OpenedFile file) {
        return file.inode() + " " + file.path();
    }

    private List<Name> look(List<OpenedFile> files) throws CheckpointException {
        List<Name> names = new ArrayList<>();
        List<String> lines = looker.look(
                files.stream().map(file -> new Question("", file.path())).toList());
        for (int at = 0; at < files.size(); at++) {
            OpenedFile file = files.get(at);
            Name literal = new Name(file, file.path(), false, FileFacts.parse(lines.get(at)));
            names.add(literal.isOfSocket() ? literal : former(file));
        }
        return names;
    }

    private Name former(OpenedFile file) throws CheckpointException {
        String path = file.pathBefore();
        String line = looker.look(List.of(new Question("", path))).get(0);
        return new Name(file, path, true, FileFacts.parse(line));
    }

    private void comparePage(int rank, List<Name> page, List<Refusal> refusals)
            throws IOException, CheckpointException, InterruptedException {
        if (page.isEmpty()) {
            return;
        }
        FilesInspected there = target.ask('s', page.stream().map(Name::path).toList());
        FileRules both = rules.apply(there.kernel());
        for (int at = 0; at < page.size(); at++) {
            Name name = page.get(at);
            String line = there.lines().get(at);
            FileDecision verdict = decide(rank, name, line, both);
            boolean shared = verdict instanceof FileRules.Same same && same.shared();
            if (shared && name.former()) {
                LOG.warn(
                        "rank {}: {}: a rollback gave that name back, and CRIU restores the socket without it. Remedy:"
                                + " have the job bind its socket again",
                        rank,
                        name.file());
            }
            if (verdict instanceof FileRules.Refused refused && OpenedFiles.isStillThere(name.file())) {
                refusals.add(refused.refusal());
            } else {
                known.put(keyOf(name.file()), shared ? Optional.of(name.path()) : Optional.empty());
            }
        }
    }

    private FileDecision decide(int rank, Name name, String line, FileRules both)
            throws IOException, CheckpointException, InterruptedException {
        Optional<FileFacts> there = FileFacts.parse(line);
        if (there.isEmpty()) {
            int error = FileFacts.error(line);
            if (error != MISSING) {
                return both.unseen(rank, name.file(), error, true);
            }
            boolean folderMissing = !name.former() && FileFacts.error(answerFor('s', name.folder())) == MISSING;
            return folderMissing ? both.missingFolder(rank, name.file()) : new FileRules.Same(false);
        }
        FileDecision verdict =
                both.compareNames(rank, name.file(), name.here().filter(facts -> name.isOfSocket()), there.get());
        return verdict instanceof FileRules.CompareBound
                ? both.boundThere(rank, name.file(), answerFor('u', name.path()))
                : verdict;
    }

    private String answerFor(char kind, String path) throws IOException, CheckpointException, InterruptedException {
        return target.ask(kind, List.of(path)).lines().get(0);
    }

    /** Returns true if a socket with a name was compared. */
    boolean hasAny() {
        return !known.isEmpty();
    }

    /** Returns the names of a rank's sockets that both nodes share. Throws if it has a name that was not compared. */
    List<String> shared(List<ProcessIdentity> processes) throws IOException, CheckpointException {
        Set<String> shared = new HashSet<>();
        for (Map.Entry<String, OpenedFile> one : namesOf(processes).entrySet()) {
            Optional<String> path = known.get(one.getKey());
            if (path == null && !one.getValue().seemsUnnamed()) {
                throw new CheckpointException(
                        one.getValue() + ", which it got after the job's files were compared. Remedy: migrate again");
            }
            if (path != null) {
                path.ifPresent(shared::add);
            }
        }
        return List.copyOf(shared);
    }
}
