package io.ppmr.checkpoint;

import io.ppmr.checkpoint.ToolProcess.Explanation;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Explains a failure from CRIU's log by one sentence and a remedy. Earlier checks find most of these obstacles, but a
 * job can get one afterwards. docs/internals/criu.md has the table. Immutable, for any thread.
 */
final class CriuWords {
    private static final int LONGEST_DETAIL = 300;

    /** The entries. The first one whose words are in the log counts. */
    private static final List<Entry> TABLE = List.of(
            entry(
                    "Can't dump ghost file (\\S+)",
                    "it has a large unlinked file open: %s",
                    "have the job close it, or raise --ghost-limit in dump_arguments"),
            entry(
                    "Can't create link remap for (\\S+)\\.",
                    "it has a file open by a name that was removed, while the file has another name: %s",
                    "have the job close it, or put --link-remap into dump_arguments and restore_arguments"),
            entry(
                    "In-flight connection",
                    "a connection waits to be accepted",
                    "have the job accept it, and move it then"),
            entry(
                    "Connected TCP socket",
                    "it has an established TCP connection",
                    "have the job close it, in its suspend hook if need be, or run it in a pod"),
            entry(
                    "External socket is used",
                    "a process outside of it has the other end of one of its Unix sockets",
                    "have the job close it, in its suspend hook if need be"),
            entry(
                    "Some file locks are hold by dumping tasks",
                    "it holds a file lock",
                    "have the job release it, in its suspend hook if need be"),
            entry(
                    "Can't dump corked dgram socket",
                    "a UDP socket of it holds a datagram back (UDP_CORK)",
                    "move it once the job has sent it"),
            entry(
                    "Can't dump file \\d+ of that type \\[\\d+\\] \\((.{1,100}?)\\)",
                    "it has a descriptor of a kind that CRIU does not write: %s",
                    "have the job close it, in its suspend hook if need be"),
            entry(
                    "Unknown shit \\d+ \\((.{1,100}?)\\)",
                    "it has something mapped that CRIU does not write: %s",
                    "have the job unmap it, in its suspend hook if need be"),
            entry(
                    "Unable to convert the notify thread id",
                    "a POSIX timer of it signals one thread",
                    "have the program signal its process (SIGEV_SIGNAL)"),
            entry(
                    "Can't open file (\\S+) on restore: (.{1,60})",
                    "the target cannot open the file %s: %s",
                    "share the folder between both nodes, or make the file there"),
            entry(
                    "File (\\S+) has bad (size|mode)",
                    "the target has another file of the name %s, with another %s",
                    "share the folder between both nodes, or install the same file there"),
            entry(
                    "Can't bind inet socket.*: Cannot assign requested address",
                    "a socket of it is bound to an address that the target does not have",
                    "have the job bind it to no address, or run the job in a pod"),
            entry(
                    "Can't bind inet socket.*: Address already in use",
                    "the target has a process at the port of one of its sockets",
                    "end that process, or move the job to another node"),
            entry(
                    "Can't fork for (\\d+): File exists",
                    "the target has a process with PID %s",
                    "leave namespaces at auto, or move the job to another node"));

    private CriuWords() {}

    private record Entry(Pattern words, String sentence, String remedy) {}

    private static Entry entry(String words, String sentence, String remedy) {
        return new Entry(Pattern.compile(words), sentence, remedy);
    }

    /** Returns the sentence and the remedy for the end of a log, or empty if no entry fits. */
    static Optional<Explanation> explain(String log) {
        for (Entry entry : TABLE) {
            Matcher found = entry.words().matcher(log);
            if (found.find()) {
                Object[] details = new Object[found.groupCount()];
                for (int group = 0; group < details.length; group++) {
                    details[group] = cut(found.group(group + 1));
                }
                return Optional.of(new Explanation(String.format(entry.sentence(), details), entry.remedy()));
            }
        }
        return Optional.empty();
    }

    private static String cut(String detail) {
        String shown = detail.replaceAll("[^\\x20-\\x7e]", "?");
        return shown.length() > LONGEST_DETAIL ? shown.substring(0, LONGEST_DETAIL) + "..." : shown;
    }
}
