package io.ppmr.cluster.zookeeper;

import java.util.Optional;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.common.ZKConfig;

/** Makes the configuration of a client of the ensemble, which authenticates by SASL. */
final class ClientSettings {
    /** DIGEST-MD5 needs it since ZooKeeper 3.9, at both ends. */
    static final String FIPS_MODE = "zookeeper.fips-mode";

    private static final int ANSWER_BYTES = 64 << 20;

    private ClientSettings() {}

    /** Returns the configuration of a client that connects as {@code user}, by TLS if there are files for it. */
    static ZKClientConfig of(ClusterUser user, Optional<TlsFiles> tls) {
        ZKClientConfig settings = withoutUser(tls);
        settings.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, "true");
        settings.setProperty(ZKClientConfig.LOGIN_CONTEXT_NAME_KEY, LoginEntries.ofClient(user));
        // DIGEST-MD5 does not need the server's name, and looking it up could block.
        settings.setProperty(ZKClientConfig.ZK_SASL_CLIENT_CANONICALIZE_HOSTNAME, "false");
        return settings;
    }

    /** Returns the configuration of a client that does not authenticate. */
    static ZKClientConfig withoutUser(Optional<TlsFiles> tls) {
        LibraryLogs.quiet();
        ZKClientConfig settings = new ZKClientConfig();
        settings.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, "false");
        settings.setProperty(FIPS_MODE, "false");
        // The names of ten thousand services are one answer.
        settings.setProperty(ZKConfig.JUTE_MAXBUFFER, Integer.toString(ANSWER_BYTES));
        tls.ifPresent(files -> files.addTo(settings));
        return settings;
    }
}
