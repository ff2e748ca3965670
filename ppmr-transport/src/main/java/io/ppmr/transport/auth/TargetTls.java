package io.ppmr.transport.auth;

import io.ppmr.protocol.data.VersionRange;
import java.io.IOException;
import java.util.Hashtable;
import java.util.List;
import java.util.Optional;
import java.util.Vector;
import org.bouncycastle.tls.AbstractTlsServer;
import org.bouncycastle.tls.AlertDescription;
import org.bouncycastle.tls.ProtocolName;
import org.bouncycastle.tls.ProtocolVersion;
import org.bouncycastle.tls.PskIdentity;
import org.bouncycastle.tls.TlsCredentials;
import org.bouncycastle.tls.TlsExtensionsUtils;
import org.bouncycastle.tls.TlsFatalAlert;
import org.bouncycastle.tls.TlsPSKExternal;

/**
 * The target's choices in a TLS handshake. A peer that does not prove the shared key in its first message is refused
 * before any key is exchanged.
 */
final class TargetTls extends AbstractTlsServer {
    private final PeerAuthenticator authenticator;
    private final Object peer;
    private boolean isKeyOffered;
    private boolean hasShownKey;
    private IOException refusal;
    private TlsProfile.Exported exported;

    /** @param peer the peer's address, for errors */
    TargetTls(PeerAuthenticator authenticator, Object peer) {
        super(TlsProfile.CRYPTO);
        this.authenticator = authenticator;
        this.peer = peer;
    }

    /** Returns the connection's secrets, or null while the handshake is not complete. */
    TlsProfile.Exported exported() {
        return exported;
    }

    /** Returns why the peer was refused, if the reason is not one of TLS. */
    Optional<IOException> refusal() {
        return Optional.ofNullable(refusal);
    }

    @Override
    protected ProtocolVersion[] getSupportedVersions() {
        return ProtocolVersion.TLSv13.only();
    }

    @Override
    protected int[] getSupportedCipherSuites() {
        return TlsProfile.suites();
    }

    @Override
    public int[] getSupportedGroups() {
        return new int[] {TlsProfile.GROUP};
    }

    @Override
    public int getMaxHandshakeMessageSize() {
        return TlsProfile.MAX_HANDSHAKE_BYTES;
    }

    @Override
    @SuppressWarnings("rawtypes")
    public TlsPSKExternal getExternalPSK(Vector identities) {
        // The library finds the offered key by its name and by this age. With another age it would find none, check no
        // binder, and continue without the key.
        PskIdentity wanted = new PskIdentity(authenticator.imported().identity(), 0);
        for (Object identity : identities) {
            if (wanted.equals(identity)) {
                isKeyOffered = true;
                return TlsProfile.external(authenticator.imported());
            }
        }
        return null;
    }

    /** Returns true if the peer's first message was made with the key. It may be a recorded one. */
    boolean hasShownKey() {
        return hasShownKey;
    }

    /** Follows the check of the key, and precedes the key exchange. */
    @Override
    @SuppressWarnings("rawtypes")
    public void processClientExtensions(Hashtable extensions) throws IOException {
        if (!isKeyOffered) {
            throw new TlsFatalAlert(AlertDescription.unknown_psk_identity);
        }
        hasShownKey = true;
        requireCommonVersion(TlsExtensionsUtils.getALPNExtensionClient(extensions));
        super.processClientExtensions(extensions);
    }

    /** Names the versions of both ends, which the library's own check would not. */
    private void requireCommonVersion(Iterable<?> names) throws IOException {
        int newest = 0;
        int oldest = Integer.MAX_VALUE;
        for (Object name : names == null ? List.of() : names) {
            int version = TlsProfile.version((ProtocolName) name).orElse(0);
            newest = Math.max(newest, version);
            oldest = version == 0 ? oldest : Math.min(oldest, version);
        }
        if (newest == 0) {
            throw new TlsFatalAlert(AlertDescription.no_application_protocol);
        }
        try {
            authenticator.versions().agreedWith(new VersionRange(newest, oldest), peer);
        } catch (IOException e) {
            refusal = e;
            throw new TlsFatalAlert(AlertDescription.no_application_protocol, e);
        }
    }

    @Override
    protected Vector<ProtocolName> getProtocolNames() {
        return TlsProfile.protocols(authenticator.versions());
    }

    @Override
    public TlsCredentials getCredentials() throws IOException {
        throw new TlsFatalAlert(AlertDescription.internal_error, "this service has no certificate");
    }

    @Override
    public void notifyHandshakeComplete() throws IOException {
        super.notifyHandshakeComplete();
        exported = TlsProfile.Exported.of(context);
    }
}
