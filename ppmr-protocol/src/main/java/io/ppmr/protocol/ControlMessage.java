package io.ppmr.protocol;

import java.util.List;

/**
 * The messages of variable length on a control connection: the steps of a migration and the names of files. They travel
 * in the same ordered stream as the hot frames, so what they say holds for every frame after them.
 */
public sealed interface ControlMessage {

    /** S to T, the first message of a migration or of a check: what the source is, and what would come. */
    record Introduce(NodeFacts node, JobFacts job) implements ControlMessage {}

    /** T to S, the answer: what the target is, and what it finds when it compares; a FAIL is a Refuse to Begin. */
    record Introduced(NodeFacts node, List<Finding> findings) implements ControlMessage {
        public Introduced {
            findings = List.copyOf(findings);
        }
    }

    /** S to T: may this migration come to you? Nothing has been done to the originals yet. */
    record Begin(
            String migrationId,
            String job,
            String checkpointer,
            int chunkBytes,
            int dataConnections,
            int uid,
            int gid,
            List<Integer> ranks)
            implements ControlMessage {
        public Begin {
            ranks = List.copyOf(ranks);
        }
    }

    /** T to S: yes; the restarts are started. {@code clockNs} is the target's monotonic clock at this moment. */
    record Accept(long clockNs) implements ControlMessage {}

    /** T to S: no, and why. */
    record Refuse(String reason) implements ControlMessage {}

    /** S to T: a file, a directory or a symbolic link has come to be; {@code file} is 0 for the latter two. */
    record Created(int file, NodeKind kind, String path, int mode, int uid, int gid, String linkTarget)
            implements ControlMessage {}

    /** S to T: a name has changed; what was at {@code to} is gone. */
    record Renamed(String from, String to) implements ControlMessage {}

    /** S to T: a name is gone. */
    record Removed(String path) implements ControlMessage {}

    /** S to T: mode, owner or modification time of a name have changed. */
    record Changed(String path, int mode, int uid, int gid, long modifiedEpochNs) implements ControlMessage {}

    /** T to S: a rank is restored and held. */
    record Restored(int rank, List<Integer> pids) implements ControlMessage {
        public Restored {
            pids = List.copyOf(pids);
        }
    }

    /** T to S: every rank is restored and held, every byte and CRC is accounted for. */
    record Prepared(TransferReport report) implements ControlMessage {}

    /** S to T: the originals are gone; set the restored ranks going. */
    record Commit(String migrationId) implements ControlMessage {}

    /** T to S: the restored ranks run. */
    record Committed(String migrationId) implements ControlMessage {}

    /** S to T: give it up; end what was restored. */
    record RollBack(String migrationId, String reason) implements ControlMessage {}

    /** T to S: nothing of it is left. */
    record RolledBack(String migrationId) implements ControlMessage {}

    /** Either way: the migration has failed for this reason. */
    record Failed(String reason) implements ControlMessage {}

    /** T to S, a few times a second: how far it is. */
    record Progress(long arrivedBytes, long readBytes, long stagedBytes) implements ControlMessage {}
}
