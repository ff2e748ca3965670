package io.ppmr.cluster;

import io.ppmr.cluster.zookeeper.TlsFiles;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.linux.config.Key;
import java.nio.file.Path;
import java.util.Optional;

/**
 * The keys of a configuration file for TLS with the ensemble. Immutable.
 *
 * @param tls this node's private key and certificates
 * @param tlsAuthorities the certificates of the authorities
 */
record TlsKeys(
        @Key(
                doc = "for TLS with the ensemble's servers: a PEM file, mode 0600, with this node's private key and its"
                        + " certificates. Default: no TLS",
                example = "/etc/ppmr/node.pem")
        Optional<Path> tls,

        @Key(
                doc = "for TLS: a PEM file with the certificates of the authorities that the certificates of all"
                        + " controllers and services are from",
                example = "/etc/ppmr/authorities.pem")
        Optional<Path> tlsAuthorities) {
    /** Returns the files if both are named. Reports mistakes. */
    Optional<TlsFiles> files(ConfigFile.FileSection<?> section) {
        if (tls.isPresent() != tlsAuthorities.isPresent()) {
            section.bad(
                    tls.isPresent() ? "tls" : "tls_authorities",
                    "needs " + (tls.isPresent() ? "tls_authorities" : "tls") + " beside it: name both, or none");
            return Optional.empty();
        }
        tls.ifPresent(file -> section.here("tls", file, TlsFiles::ofNode));
        tlsAuthorities.ifPresent(file -> section.here("tls_authorities", file, TlsFiles::ofAuthorities));
        return tls.map(own -> new TlsFiles(own, tlsAuthorities.orElseThrow()));
    }
}
