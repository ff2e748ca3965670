package io.ppmr.cluster.zookeeper;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The way of a controller to the ensemble. Immutable.
 *
 * @param servers the servers, each HOST:PORT
 * @param user the user that it connects as
 * @param services the users of services
 * @param session how long it may be silent
 * @param tls the files for TLS, or empty for connections without it
 */
public record ControllerAccess(
        List<String> servers, ClusterUser user, List<ClusterUser> services, Duration session, Optional<TlsFiles> tls) {
    public ControllerAccess {
        servers = List.copyOf(servers);
        services = List.copyOf(services);
    }

    /** Returns the users that the servers accept: the controllers' first, then the services'. */
    public List<ClusterUser> users() {
        return Stream.concat(Stream.of(user), services.stream()).toList();
    }

    /** Returns the section of a JAAS file by which the servers of a site accept them. */
    public String loginSection() {
        return LoginEntries.section(users());
    }
}
