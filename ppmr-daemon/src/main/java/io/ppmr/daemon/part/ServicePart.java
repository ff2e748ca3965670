package io.ppmr.daemon.part;

import io.micrometer.core.instrument.MeterRegistry;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.jobs.JobSource;
import io.ppmr.migration.LostPeers;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.NodeGauge;
import io.ppmr.migration.source.SpareNodes;
import io.ppmr.protocol.control.Finding;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * An optional part of the services, in a module of its own. A {@link java.util.ServiceLoader} finds it. The core
 * depends on a part only through this interface. A part may add sections to the configuration, commands, control
 * requests, jobs, and meters. It may also add checks of {@code ppmr doctor}, and the surroundings of a job's ranks. It
 * is immutable.
 */
public interface ServicePart {
    /** Returns its name, as in {@code ppmr-NAME}, the module. */
    String name();

    /** Returns the records of the sections that it adds to the files of a side. */
    default List<Class<? extends Record>> sections(Side side) {
        return List.of();
    }

    /** Returns the roles of further services that it adds, each with a configuration file of its own. */
    default List<ConfigRole> roles() {
        return List.of();
    }

    /** Reads its sections and reports their mistakes to the file. */
    default Configured read(ConfigFile file, Side side, Tools tools) {
        return new Configured() {};
    }

    /** Creates the commands that it adds to {@code ppmr}: objects with picocli's annotations. */
    default List<Object> commands() {
        return List.of();
    }

    /** Registers its meters of a service of a role, such as {@code source}, for the page of all meters. */
    default void describe(MeterRegistry meters, String role) {}

    /** The two kinds of services. */
    enum Side {
        SOURCE,
        TARGET
    }

    /** The checkpointers of a configuration, by name, and the names of those that users' jobs may use. */
    record Tools(Map<String, Checkpointer> byName, Set<String> forUsersJobs) {}

    /** The surroundings of a running part: native programs, environment, key of the nodes, and registry of meters. */
    record Node(
            NativePrograms programs, Map<String, String> environment, PeerAuthenticator key, MeterRegistry meters) {}

    /**
     * A service that is ready. It is for any thread.
     *
     * @param side source or target
     * @param journal the directory of its journal, on a local disk
     * @param listen the address at which a target takes migrations, or empty at a source
     * @param gauge reads the present figures of the node
     * @param jobs the jobs over several nodes
     * @param peers the nodes that open migrations wait for
     */
    record Ready(
            Side side,
            Path journal,
            Optional<InetSocketAddress> listen,
            NodeGauge gauge,
            NodeJobs jobs,
            LostPeers peers) {}

    /** The configuration of a part. It is immutable. */
    interface Configured {
        /** Returns true if the part has requests for users without rights at the service. */
        default boolean isForUsers() {
            return false;
        }

        /** Returns true if a trigger that names no job moves the jobs of this part. */
        default boolean takesJobs() {
            return false;
        }

        /** Returns the commands that root runs, by their keys in the file. */
        default Map<String, List<String>> rootsCommands() {
            return Map.of();
        }

        /** Checks the node, for {@code ppmr doctor}. Returns empty if the part is not used. */
        default List<Finding> findings(PeerAuthenticator key) {
            return List.of();
        }

        /** Returns what finds spare nodes for jobs, if the part does. */
        default Optional<SpareNodes.SpareFinder> spares(PeerAuthenticator key) {
            return Optional.empty();
        }

        /** Creates the part of one service, not started yet. */
        default Running open(Node node) {
            return new Running() {};
        }
    }

    /** A part of one service. It is safe for any thread. */
    interface Running {
        /** Creates its directories, before the service starts. */
        default void prepare() throws IOException {}

        /** Starts its own work: the service is ready. Does not block. */
        default void serve(Ready service) throws IOException {}

        /** Handles the end of a migration at this node, or of one of its sessions at a target. It must not block. */
        default void ended(String migrationId) {}

        /** Ends its own work. It is called once, also if it never served. */
        default void end() {}

        /** Returns its requests on the control socket, by their names. */
        default Map<String, ControlRequest<?>> requests() {
            return Map.of();
        }

        /** Returns its source of users' jobs. */
        default Optional<JobSource> jobs() {
            return Optional.empty();
        }

        /** Returns the jobs over several nodes with pods here. */
        default Optional<MemberJobs> members() {
            return Optional.empty();
        }

        /** Returns its surroundings of ranks. */
        default Optional<RankSurroundings> surroundings() {
            return Optional.empty();
        }
    }
}
