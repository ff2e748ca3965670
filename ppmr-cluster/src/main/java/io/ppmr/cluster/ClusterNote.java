package io.ppmr.cluster;

import io.ppmr.cluster.zookeeper.ServiceSession;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;

/**
 * The note of a service about its cluster, in a file of its journal's directory: the cluster's name, and its last
 * session, which its next run ends. Immutable.
 *
 * @param clusterId the name of the cluster that the service saw first
 * @param session its last session, or empty for none
 */
record ClusterNote(String clusterId, Optional<ServiceSession.Credentials> session) {
    private static final String FILE = "cluster";
    private static final int HEX = 16;

    /** Reads the file; empty if there is none. */
    static Optional<ClusterNote> read(Path journal) throws IOException {
        Path file = journal.resolve(FILE);
        if (!Files.exists(file)) {
            return Optional.empty();
        }
        List<String> lines = Files.readAllLines(file, StandardCharsets.US_ASCII);
        try {
            if (lines.size() > 2) {
                HexFormat.of().parseHex(lines.get(2).strip());
            }
            String id = lines.get(0).strip();
            Optional<ServiceSession.Credentials> session = lines.size() < 3
                    ? Optional.empty()
                    : Optional.of(new ServiceSession.Credentials(
                            Long.parseUnsignedLong(lines.get(1), HEX),
                            lines.get(2).strip()));
            return Optional.of(new ClusterNote(id, session));
        } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
            throw new IOException(
                    file + " is damaged. Remedy: remove it, if this node shall join the cluster of its configuration",
                    e);
        }
    }

    /** Replaces the file, which only the service's user can read. It is on the disk when this returns. */
    void write(Path journal) throws IOException {
        Path fresh = journal.resolve(FILE + ".new");
        StringBuilder text = new StringBuilder(clusterId).append('\n');
        session.ifPresent(one -> text.append(Long.toHexString(one.id()))
                .append('\n')
                .append(one.password())
                .append('\n'));
        Files.deleteIfExists(fresh);
        Files.createFile(fresh, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        Files.writeString(fresh, text, StandardCharsets.US_ASCII);
        try (FileChannel written = FileChannel.open(fresh, StandardOpenOption.WRITE)) {
            written.force(true);
        }
        Files.move(fresh, journal.resolve(FILE), StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        try (FileChannel directory = FileChannel.open(journal)) {
            directory.force(true);
        }
    }
}
