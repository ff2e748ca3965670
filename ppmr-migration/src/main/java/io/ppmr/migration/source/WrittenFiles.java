package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.keep.MemberImage.WrittenFile;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Finds the node's files that held processes have open for writing, proc_pid_fd(5). */
final class WrittenFiles {
    private static final Logger LOG = LoggerFactory.getLogger(WrittenFiles.class);
    /** The most files of a pod, and the most characters of their paths: a manifest has them all. */
    private static final int MOST = 4096;

    private static final int MOST_CHARACTERS = 256 << 10;
    private static final int ACCESS_MODE = 3;
    private static final int APPEND = 02000;
    private static final int OCTAL = 8;
    private static final String FLAGS = "flags:";
    private static final String DELETED = " (deleted)";

    private WrittenFiles() {}

    /**
     * Returns the files below these directories with their sizes. Files that are only appended to are left out, since
     * CRIU accepts another size of them.
     *
     * @param pod the name of their pod
     * @throws CheckpointException if they are more than a manifest may have
     */
    static List<WrittenFile> of(String pod, List<ProcessIdentity> processes, List<String> directories)
            throws CheckpointException {
        Map<String, Long> sizes = new TreeMap<>();
        for (ProcessIdentity process : processes) {
            Path open = Path.of("/proc", Integer.toString(process.pid()), "fd");
            try (DirectoryStream<Path> descriptors = Files.newDirectoryStream(open)) {
                for (Path descriptor : descriptors) {
                    note(process, descriptor, directories, sizes);
                }
            } catch (IOException e) {
                LOG.info("the open files of PID {} are not in the manifest: {}", process.pid(), e.getMessage());
            }
            requireFew(pod, sizes);
        }
        return sizes.entrySet().stream()
                .map(file -> new WrittenFile(file.getKey(), file.getValue()))
                .sorted(Comparator.comparing(WrittenFile::path))
                .collect(ArrayList::new, ArrayList::add, ArrayList::addAll);
    }

    private static void requireFew(String pod, Map<String, Long> sizes) throws CheckpointException {
        int characters = sizes.keySet().stream().mapToInt(String::length).sum();
        if (sizes.size() > MOST || characters > MOST_CHARACTERS) {
            throw new CheckpointException("pod " + pod + " has more than " + MOST + " files of the node open for"
                    + " writing, or files whose paths have more than " + MOST_CHARACTERS
                    + " characters in all. Remedy: have it close some of them");
        }
    }

    private static void note(
            ProcessIdentity process, Path descriptor, List<String> directories, Map<String, Long> sizes)
            throws IOException {
        String path = Files.readSymbolicLink(descriptor).toString();
        boolean isBelow = directories.stream().anyMatch(directory -> path.startsWith(directory + "/"));
        if (!isBelow || path.endsWith(DELETED) || sizes.size() > MOST || !Files.isRegularFile(descriptor)) {
            return;
        }
        Path facts = Path.of(
                "/proc",
                Integer.toString(process.pid()),
                "fdinfo",
                descriptor.getFileName().toString());
        for (String line : Files.readAllLines(facts)) {
            if (line.startsWith(FLAGS)) {
                int flags = Integer.parseInt(line.substring(FLAGS.length()).strip(), OCTAL);
                if ((flags & ACCESS_MODE) != 0 && (flags & APPEND) == 0) {
                    sizes.put(path, Files.size(descriptor));
                }
            }
        }
    }
}
