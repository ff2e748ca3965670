package io.ppmr.pods;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.ReturnToken;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Optional;

/**
 * Records a pod, in the pod's folder, which is root's alone: written before anything of the pod is
 * made, again when its init is there, and when its command has begun. So a service that dies at any moment finds
 * what it has to take away. Immutable.
 *
 * @param uid whose it is
 * @param gid the user's group
 * @param name what the user calls it
 * @param template the kind of pod
 * @param address its IPv4 address
 * @param mac its MAC address
 * @param bridge what it is plugged into
 * @param link the node's end of its cable
 * @param environment what commands in it get, each NAME=VALUE
 * @param command what it was made for
 * @param startedAtMs when, in milliseconds since 1970 UTC
 * @param init its PID 1; null while it is being made
 * @param begun whether its command has begun; what has an init and no command is half made
 * @param move the migration by which it leaves, or by which and in which attempt it comes; null for none
 * @param arriving whether it comes: all of it is the migration's to take away
 * @param mounts directories of the node that it sees; null in a record of an earlier release
 * @param network the number of the network namespace that was made for it; 0 before, and in some of an earlier release
 * @param address6 its IPv6 address besides; empty for none
 * @param job the job that it belongs to; null for one of its own
 * @param token by which nodes believe that its address is back, as long as it moves; null for none
 */
public record PodRecord(
        int uid,
        int gid,
        String name,
        String template,
        String address,
        String mac,
        String bridge,
        String link,
        List<String> environment,
        List<String> command,
        long startedAtMs,
        ProcessIdentity init,
        boolean begun,
        String move,
        boolean arriving,
        List<String> mounts,
        long network,
        String address6,
        String job,
        String token) {
    private static final String FILE = "pod.json";
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public PodRecord {
        environment = List.copyOf(environment);
        command = List.copyOf(command);
        // A record of an earlier release has none.
        address6 = address6 == null ? "" : address6;
        mounts = mounts == null ? null : List.copyOf(mounts);
    }

    /** Gives the same with its init, and whether its command has begun. */
    PodRecord with(ProcessIdentity found, boolean nowBegun) {
        return changed(found, nowBegun, move, arriving, network, token);
    }

    /** Gives the same, which leaves by a migration. */
    PodRecord moving(String by, ReturnToken of) {
        return changed(init, begun, by, false, network, of.text());
    }

    /** Gives the same, which is this node's, and moves by no migration any more. */
    PodRecord settled() {
        return changed(init, true, null, false, network, null);
    }

    /** Gives the token of its move; an earlier release has given none. */
    ReturnToken returnToken() {
        return token == null ? ReturnToken.of(MigrationSecret.NONE, address) : new ReturnToken(token);
    }

    /** Gives the same, in that network namespace. */
    PodRecord into(long namespace) {
        return changed(init, begun, move, arriving, namespace, token);
    }

    private PodRecord changed(
            ProcessIdentity found, boolean nowBegun, String by, boolean comes, long namespace, String of) {
        return new PodRecord(
                uid,
                gid,
                name,
                template,
                address,
                mac,
                bridge,
                link,
                environment,
                command,
                startedAtMs,
                found,
                nowBegun,
                by,
                comes,
                mounts,
                namespace,
                address6,
                job,
                of);
    }

    /** Gives the full name, which no other user's pod has. */
    public String fullName() {
        return Integer.toUnsignedString(uid) + "/" + name;
    }

    /** Lists all addresses that it has. */
    List<String> addresses() {
        return address6.isEmpty() ? List.of(address) : List.of(address, address6);
    }

    /** Gives the name of the job that it belongs to: that of its own where it was given none. */
    public String jobName() {
        return job == null ? name : job;
    }

    /** Gives the name of its folder, and what the runtime calls it. */
    String id() {
        return Integer.toUnsignedString(uid) + "-" + name;
    }

    /** Writes it into a folder; it is on the disk when this returns. */
    void write(Path folder) throws IOException {
        Path part = folder.resolve(FILE + ".part");
        try (FileChannel channel = FileChannel.open(
                part, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            ByteBuffer bytes = ByteBuffer.wrap(MAPPER.writeValueAsBytes(this));
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        }
        Files.move(part, folder.resolve(FILE), StandardCopyOption.ATOMIC_MOVE);
        try (FileChannel directory = FileChannel.open(folder, StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    /** Reads that of a folder; empty if there is none, so that nothing of the pod was made. */
    static Optional<PodRecord> read(Path folder) throws IOException {
        try {
            return Optional.of(MAPPER.readValue(Files.readAllBytes(folder.resolve(FILE)), PodRecord.class));
        } catch (NoSuchFileException none) {
            return Optional.empty();
        } catch (IOException e) {
            throw new IOException(
                    "what is known of the pod in " + folder + " cannot be read: " + e.getMessage()
                            + ". Remedy: see what runs there, end it, and remove the folder",
                    e);
        }
    }
}
