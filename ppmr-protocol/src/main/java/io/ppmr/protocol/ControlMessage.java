package io.ppmr.protocol;

import java.util.List;

/**
 * The messages of variable length on a control connection: the steps of a migration and the names of files. They travel
 * in the same ordered stream as the hot frames, so what they say holds for every frame after them.
 */
public sealed interface ControlMessage {

    /**
     * S to T: may this migration come to you? Nothing has been done to the originals yet. {@code participants} are the
     * addresses of all targets that take part, in their order; {@code place} is the receiver's among them. {@code
     * transports} says how its bytes may travel, {@link Begin#OVER_TCP}, {@link Begin#OVER_RDMA} or both.
     */
    /** S to T, the first message of a migration or of a check: what the source is, and what would come. */
    record Introduce(NodeFacts node, JobFacts job) implements ControlMessage {}

    /** T to S, the answer: what the target is, and what it finds when it compares; a FAIL is a Refuse to Begin. */
    record Introduced(NodeFacts node, List<Finding> findings) implements ControlMessage {
        public Introduced {
            findings = List.copyOf(findings);
        }
    }

    /**
     * S to T: may this migration come to you? Nothing has been done to the originals yet. {@code moving} are all ranks
     * that move, {@code places} says "rank node" for every rank of the job, as it is to be.
     */
    record Begin(
            String migrationId,
            String job,
            String checkpointer,
            int chunkBytes,
            int dataConnections,
            int uid,
            int gid,
            List<Integer> ranks,
            List<String> participants,
            int place,
            int transports,
            List<Integer> moving,
            List<String> places)
            implements ControlMessage {
        public static final int OVER_TCP = 1;
        public static final int OVER_RDMA = 2;

        public Begin {
            ranks = List.copyOf(ranks);
            participants = List.copyOf(participants);
            moving = List.copyOf(moving);
            places = List.copyOf(places);
        }
    }

    /**
     * T to S: yes; the restarts are started. {@code clockNs} is the target's monotonic clock at this moment. Once it
     * has
     * voted it may fence the source until {@code fenceWindowMs} after it lost it, 0 if it never does; it takes a link
     * for lost after {@code silenceLimitMs}.
     */
    record Accept(long clockNs, long fenceWindowMs, long silenceLimitMs) implements ControlMessage {}

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

    /**
     * S to T, before the rank's image is whole, if the job itself had stopped some of its processes: their copies are
     * never set going. {@code pids} are those of all its processes as they see themselves, the root's first, a parent's
     * before its children's; {@code parents} has for each the place of its parent in that list, -1 for none; {@code
     * stopped} are the places of those that were stopped.
     */
    record Stopped(int rank, List<Integer> pids, List<Integer> parents, List<Integer> stopped)
            implements ControlMessage {
        public Stopped {
            pids = List.copyOf(pids);
            parents = List.copyOf(parents);
            stopped = List.copyOf(stopped);
        }
    }

    /**
     * S to T, before END_OF_IMAGE of the rank: what its originals may do and have open, line by line. A record that
     * does not fit one frame is continued by further ones; {@code last} ends it.
     */
    record Originals(int rank, boolean last, List<String> lines) implements ControlMessage {
        public Originals {
            lines = List.copyOf(lines);
        }
    }

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

    /** T to S: nothing of it is left, and why. */
    record RolledBack(String migrationId, String reason) implements ControlMessage {}

    /** Either way: the migration has failed for this reason. */
    record Failed(String reason) implements ControlMessage {}

    /** S to T, after all votes: are the restored ranks still held? */
    record Confirm(String migrationId) implements ControlMessage {}

    /** T to S: yes, proved just now. */
    record StillHeld(String migrationId) implements ControlMessage {}

    /** T to S: no, and why. */
    record NotHeld(String migrationId, String reason) implements ControlMessage {}

    /** First on a connection from a target to another one: who is speaking; everything after it is its word. */
    record Peer(String migrationId, String participant) implements ControlMessage {}

    /**
     * A target to another one: the source does not answer; where do you stand? With a {@code round} other than 0 the
     * first one also asks for a promise: no rollback on the source's word for {@code promiseMs}.
     */
    record Ask(String migrationId, long round, long promiseMs) implements ControlMessage {}

    /** First target to another one: the source is proved to be off; from your answer on my word decides. */
    record TakeOver(String migrationId) implements ControlMessage {}

    /** The answer to both; {@code round} is the question's, 0 for a take-over. */
    record Standing(String migrationId, VoterState state, long round) implements ControlMessage {}
    /**
     * T to S, where the source could use RDMA: connect so, {@code direct} by RDMA to this port of the address that the
     * control connection goes to, else by data connections; and why.
     */
    record Offer(boolean direct, int port, String reason) implements ControlMessage {}

    /**
     * S to T: connected, as offered or, {@code direct} being false, by data connections; and why. At the address lie 32
     * bytes whose SHA-256 is the digest, which the target reads by the connection to know whom it has there.
     */
    record Attached(boolean direct, long address, long key, String digest, String reason) implements ControlMessage {}

    /** T to S, a few times a second: how far it is. */
    record Progress(long arrivedBytes, long readBytes, long stagedBytes) implements ControlMessage {}
}
