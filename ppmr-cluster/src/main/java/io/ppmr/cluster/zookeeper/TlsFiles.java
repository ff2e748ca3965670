package io.ppmr.cluster.zookeeper;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.security.GeneralSecurityException;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.common.ClientX509Util;
import org.apache.zookeeper.common.X509Util;
import org.apache.zookeeper.util.PemReader;

/**
 * The certificates by which TLS protects the connections with an ensemble. Both ends of a connection have one, and a
 * client compares the server's with the server's name. Immutable.
 *
 * @param own a PEM file with this node's private key and its certificates, its own first
 * @param authorities a PEM file with the certificates of the authorities that peers' certificates are from
 */
public record TlsFiles(Path own, Path authorities) {
    private static final String NETTY_CLIENT = "org.apache.zookeeper.ClientCnxnSocketNetty";
    private static final String PEM = "PEM";
    private static final Set<PosixFilePermission> OWNER_ONLY =
            EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE);

    /** Checks a file with this node's private key and certificates. Returns its path. */
    public static Path ofNode(Path file) throws IOException {
        requireFile(file);
        if (!OWNER_ONLY.containsAll(Files.getPosixFilePermissions(file))) {
            throw new IOException(
                    file + " has a private key and can be read by users other than its owner: chmod 600 " + file);
        }
        try {
            PemReader.loadKeyStore(file.toFile(), file.toFile(), Optional.empty());
            return file;
        } catch (GeneralSecurityException | IOException | RuntimeException e) {
            throw new IOException(
                    file + " is no PEM file with an unencrypted private key (PKCS #8) and its certificates: "
                            + e.getMessage(),
                    e);
        }
    }

    /** Checks a file with certificates of authorities. Returns its path. */
    public static Path ofAuthorities(Path file) throws IOException {
        requireFile(file);
        try {
            if (PemReader.readCertificateChain(file.toFile()).isEmpty()) {
                throw new IOException("it has no certificate");
            }
            return file;
        } catch (GeneralSecurityException | IOException | RuntimeException e) {
            throw new IOException(file + " is no PEM file with certificates: " + e.getMessage(), e);
        }
    }

    private static void requireFile(Path file) throws IOException {
        if (!Files.isRegularFile(file)) {
            throw new IOException(file + " does not exist or is no file: name a PEM file");
        }
    }

    /** Adds what a client of the ensemble needs. */
    void addTo(ZKClientConfig settings) {
        try (X509Util names = new ClientX509Util()) {
            settings.setProperty(ZKClientConfig.SECURE_CLIENT, "true");
            settings.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, NETTY_CLIENT);
            put(names, settings::setProperty);
        }
    }

    /** Receives a property. */
    @FunctionalInterface
    interface Properties {
        /** Sets it. */
        void set(String name, String value);
    }

    /** Sets the properties that name these files, for one kind of connections. */
    void put(X509Util names, Properties properties) {
        properties.set(names.getSslKeystoreLocationProperty(), own.toString());
        properties.set(names.getSslKeystoreTypeProperty(), PEM);
        properties.set(names.getSslTruststoreLocationProperty(), authorities.toString());
        properties.set(names.getSslTruststoreTypeProperty(), PEM);
    }
}
