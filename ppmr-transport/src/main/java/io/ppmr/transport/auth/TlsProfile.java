package io.ppmr.transport.auth;

import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.VersionRange;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Optional;
import java.util.Vector;
import org.bouncycastle.tls.AlertDescription;
import org.bouncycastle.tls.BasicTlsPSKExternal;
import org.bouncycastle.tls.CipherSuite;
import org.bouncycastle.tls.NamedGroup;
import org.bouncycastle.tls.PRFAlgorithm;
import org.bouncycastle.tls.ProtocolName;
import org.bouncycastle.tls.TlsContext;
import org.bouncycastle.tls.TlsFatalAlert;
import org.bouncycastle.tls.TlsPSKExternal;
import org.bouncycastle.tls.crypto.impl.bc.BcTlsCrypto;

/**
 * The parts of TLS 1.3 that ppmr uses, the same at both ends: one suite, one group, an external key with a key exchange
 * for each connection. The application protocol (ALPN) names version and protection, so no host between the ends
 * can lower them.
 */
final class TlsProfile {
    /** The cryptography of all connections. It is stateless except for its random numbers. */
    static final BcTlsCrypto CRYPTO = new BcTlsCrypto(Handshake.RANDOM);

    static final int GROUP = NamedGroup.x25519;
    private static final int SUITE = CipherSuite.TLS_AES_256_GCM_SHA384;
    /** Limit of all bytes that a peer sends before it is authenticated. */
    static final int MAX_HANDSHAKE_BYTES = 8192;

    /** The first byte of a TLS connection: a record of the handshake. */
    static final byte FIRST_BYTE = 0x16;

    private static final String PROTOCOL = "ppmr/";
    private static final String PROTECTION = "/control";
    private static final int SECRET_BYTES = 32;

    private TlsProfile() {}

    static int[] suites() {
        return new int[] {SUITE};
    }

    static TlsPSKExternal external(ImportedKey key) {
        return new BasicTlsPSKExternal(key.identity(), CRYPTO.createSecret(key.key()), PRFAlgorithm.tls13_hkdf_sha384);
    }

    /** Returns the names of the protocol's versions, the newest first. */
    @SuppressWarnings("JdkObsolete")
    static Vector<ProtocolName> protocols(VersionRange versions) {
        Vector<ProtocolName> names = new Vector<>();
        for (int version = versions.newest(); version >= versions.oldest(); version--) {
            names.add(ProtocolName.asUtf8Encoding(PROTOCOL + version + PROTECTION));
        }
        return names;
    }

    /** Returns the version that a name of the protocol contains; empty if it is not a name of ppmr with encryption. */
    static Optional<Integer> version(ProtocolName protocol) {
        String name = new String(protocol.getBytes(), StandardCharsets.UTF_8);
        boolean isOurs = name.startsWith(PROTOCOL) && name.endsWith(PROTECTION);
        String number = isOurs ? name.substring(PROTOCOL.length(), name.length() - PROTECTION.length()) : "";
        return number.matches("[1-9][0-9]{0,2}") ? Optional.of(Integer.parseInt(number)) : Optional.empty();
    }

    /** The secrets that both ends derive from a finished handshake. */
    static final class Exported {
        private final int version;
        private final byte[] data;
        private final byte[] resumption;
        private final byte[] connection;

        private Exported(int version, byte[] data, byte[] resumption, byte[] connection) {
            this.version = version;
            this.data = data;
            this.resumption = resumption;
            this.connection = connection;
        }

        /** Derives the secrets when the handshake is complete. */
        static Exported of(TlsContext context) throws TlsFatalAlert {
            ProtocolName protocol = context.getSecurityParametersConnection().getApplicationProtocol();
            Optional<Integer> version = protocol == null ? Optional.empty() : TlsProfile.version(protocol);
            if (version.isEmpty()) {
                throw new TlsFatalAlert(AlertDescription.no_application_protocol);
            }
            return new Exported(
                    version.get(),
                    context.exportKeyingMaterial("EXPORTER-ppmr-data", null, SECRET_BYTES),
                    context.exportKeyingMaterial("EXPORTER-ppmr-resumption", null, SECRET_BYTES),
                    context.exportKeyingMaterial("EXPORTER-ppmr-connection", null, SECRET_BYTES));
        }

        int version() {
            return version;
        }

        SessionKeys keys(SessionId session, ConnectionProof authenticator) throws ProtocolException {
            VersionRange agreed = new VersionRange(version, version);
            return new SessionKeys(
                    session,
                    authenticator.versions().agreedWith(agreed, "of the session"),
                    new SessionProof(data, agreed),
                    resumption);
        }

        /** Proves on this connection that the end of that role also has the other connection's secret. */
        byte[] proof(ConnectionProof.Role role, byte[] resumptionSecret) {
            return new Hmac(resumptionSecret)
                    .of(
                            ("ppmr resume " + role).getBytes(StandardCharsets.US_ASCII),
                            Arrays.copyOf(connection, SECRET_BYTES));
        }
    }
}
