package io.ppmr.protocol.control;

import io.ppmr.protocol.data.ProtocolException;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Checks a received plan: the participants and their addresses, the node of each rank, and the length of a fence
 * window. Message handlers need not repeat these checks. Any thread.
 */
final class PlanCheck {
    /** A host, by name or number, and its port. An IPv6 address may have no brackets. */
    private static final Pattern ADDRESS = Pattern.compile("[^\\s\\p{Cntrl}]{1,255}:(\\d{1,5})");

    /** The node of a rank goes into a file of lines, and into a text with spaces between nodes. */
    private static final Pattern RANK_NODE = Pattern.compile("(0|[1-9]\\d{0,9}) [^\\s\\p{Cntrl}]{1,255}");

    /** A numeric address, which is parsed later. */
    private static final Pattern NUMBERS = Pattern.compile("[0-9a-f.:]{2,45}");

    /** As the kernel writes it. It goes into the journal, and into the output of commands. */
    private static final Pattern BOOT_ID = Pattern.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");

    private static final Pattern NAME = Pattern.compile("[0-9A-Za-z_-]{1,64}");
    /** A service that moves a pod repeats its message, so the state ends soon after that service fails. */
    private static final long LONGEST_LEASE_MS = TimeUnit.MINUTES.toMillis(1);

    private static final int MAX_PORT = 65_535;
    /** Longer than any configured wait, and short enough for sums in nanoseconds. */
    private static final long LONGEST_MS = TimeUnit.DAYS.toMillis(365);

    private PlanCheck() {}

    static ControlMessage.Begin requireValid(ControlMessage.Begin begin) throws ProtocolException {
        Set<String> participants = new HashSet<>();
        for (String participant : begin.participants()) {
            require(isAddress(participant) && participants.add(participant), "participant", participant);
        }
        require(
                begin.participantIndex() >= 0 && begin.participantIndex() < participants.size(),
                "participant index",
                begin.participantIndex());
        requireRanks(begin.ranks());
        requireRanks(begin.placement().moving());
        requireBootId(begin.bootId());
        require(
                begin.transfer().carriedBytes() >= 0,
                "length of the files that travel with the job",
                begin.transfer().carriedBytes());
        Set<Long> ranks = new HashSet<>();
        for (String rankNode : begin.placement().rankNodes()) {
            Matcher parts = RANK_NODE.matcher(rankNode);
            require(parts.matches(), "node of a rank", rankNode);
            long rank = Long.parseLong(parts.group(1));
            require(rank <= Integer.MAX_VALUE && ranks.add(rank), "node of a rank", rankNode);
        }
        return begin;
    }

    static ControlMessage.Participation requireValid(ControlMessage.Participation peer) throws ProtocolException {
        // The source has no name among the participants.
        require(peer.participant().isEmpty() || isAddress(peer.participant()), "participant", peer.participant());
        return peer;
    }

    static ControlMessage.Accept requireValid(ControlMessage.Accept accept) throws ProtocolException {
        require(accept.fenceWindowMs() >= 0 && accept.fenceWindowMs() <= LONGEST_MS, "fence window", accept);
        require(accept.silenceLimitMs() >= 0 && accept.silenceLimitMs() <= LONGEST_MS, "silence limit", accept);
        requireBootId(accept.bootId());
        return accept;
    }

    static ControlMessage.AddressAway requireValid(ControlMessage.AddressAway away) throws ProtocolException {
        require(NUMBERS.matcher(away.address()).matches(), "address of a pod", away.address());
        require(NAME.matcher(away.migrationId()).matches(), "name of a migration", away.migrationId());
        require(away.leaseMs() >= 0 && away.leaseMs() <= LONGEST_LEASE_MS, "lease", away.leaseMs());
        require(ReturnToken.isWellFormed(away.token()), "token", away.token());
        return away;
    }

    private static void requireBootId(String bootId) throws ProtocolException {
        require(bootId.isEmpty() || BOOT_ID.matcher(bootId).matches(), "boot ID", bootId);
    }

    private static boolean isAddress(String text) {
        Matcher address = ADDRESS.matcher(text);
        return address.matches() && Integer.parseInt(address.group(1)) <= MAX_PORT;
    }

    private static void requireRanks(List<Integer> ranks) throws ProtocolException {
        for (int rank : ranks) {
            require(rank >= 0, "rank", rank);
        }
    }

    private static void require(boolean sound, String what, Object found) throws ProtocolException {
        if (!sound) {
            String text = String.valueOf(found);
            throw new ProtocolException("a message contains an invalid or repeated " + what + " ("
                    + text.substring(0, Math.min(text.length(), 80)).replaceAll("\\p{Cntrl}", "?")
                    + "): the peer is broken");
        }
    }
}
