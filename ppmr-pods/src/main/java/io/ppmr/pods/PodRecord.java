package io.ppmr.pods;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodSpecification;
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
 * Records a pod, in a folder of the pod that only root may read. The service writes it before it makes anything of the
 * pod, again when the init process exists, and again when the command began. So a service that starts after a crash
 * finds what to remove. It is immutable.
 *
 * @param specification the pod as its user ordered it, with its template and whole environment
 * @param uid its user
 * @param gid its user's group
 * @param addresses its addresses
 * @param bridge the bridge that its virtual cable is plugged into
 * @param link the node's end of its virtual cable
 * @param mounts directories of the node that it sees
 * @param startedAtMs its start, in milliseconds since 1970 UTC
 * @param init its PID 1, or null while the service makes it
 * @param begun whether its command began. A pod with an init and without a command is half made
 * @param network the number of its network namespace, or 0 before that exists
 * @param move the migration that removes or brings it, or null for none
 */
public record PodRecord(
        PodSpecification specification,
        int uid,
        int gid,
        PodAddresses addresses,
        String bridge,
        String link,
        List<String> mounts,
        long startedAtMs,
        ProcessIdentity init,
        boolean begun,
        long network,
        PodMove move) {
    private static final String FILE = "pod.json";
    private static final ObjectMapper MAPPER = new ObjectMapper();

    /**
     * A migration of a pod.
     *
     * @param migration its name
     * @param arriving whether it brings the pod: the pod is then the migration's to remove
     * @param token proves to other nodes that the pod's address is back; null if they get no notice
     */
    public record PodMove(String migration, boolean arriving, ReturnToken token) {
        /** Returns true if other nodes learn that the pod's address is away, and when it is back. */
        boolean notifies() {
            return token != null;
        }
    }

    public PodRecord {
        mounts = List.copyOf(mounts);
    }

    /** Returns the same pod with its init, and whether its command began. */
    PodRecord with(ProcessIdentity found, boolean nowBegun) {
        return changed(found, nowBegun, network, move);
    }

    /** Returns the same pod, which leaves by a migration. */
    PodRecord leaving(String migration, ReturnToken token) {
        return changed(init, begun, network, new PodMove(migration, false, token));
    }

    /** Returns the same pod, which belongs to this node and to no migration. */
    PodRecord settled() {
        return changed(init, true, network, null);
    }

    /** Returns the same pod, in that network namespace. */
    PodRecord into(long namespace) {
        return changed(init, begun, namespace, move);
    }

    private PodRecord changed(ProcessIdentity found, boolean nowBegun, long namespace, PodMove by) {
        return new PodRecord(
                specification, uid, gid, addresses, bridge, link, mounts, startedAtMs, found, nowBegun, namespace, by);
    }

    /** Returns the user's name for the pod. */
    String name() {
        return specification.name();
    }

    /** Returns its IPv4 address. */
    String address() {
        return addresses.address();
    }

    /** Returns the full name, which no other user's pod has. */
    public String fullName() {
        return Integer.toUnsignedString(uid) + "/" + name();
    }

    /** Returns true while a migration removes or brings it. */
    boolean moves() {
        return move != null;
    }

    /** Returns true if that migration removes or brings it. */
    boolean movesBy(String migration) {
        return move != null && move.migration().equals(migration);
    }

    /** Returns true while a migration brings it. */
    boolean arrives() {
        return move != null && move.arriving();
    }

    /** Returns the name of its folder, which is also its name in the runtime. */
    String id() {
        return Integer.toUnsignedString(uid) + "-" + name();
    }

    /** Writes it into a folder. It is on the disk when this returns. */
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

    /** Reads the record in a folder. Empty if there is none, which means that the pod was not made. */
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
