package io.ppmr.transport.auth;

import java.io.IOException;
import java.util.Vector;
import org.bouncycastle.tls.AbstractTlsClient;
import org.bouncycastle.tls.AlertDescription;
import org.bouncycastle.tls.ProtocolName;
import org.bouncycastle.tls.ProtocolVersion;
import org.bouncycastle.tls.TlsAuthentication;
import org.bouncycastle.tls.TlsFatalAlert;
import org.bouncycastle.tls.TlsPSK;
import org.bouncycastle.tls.TlsPSKExternal;

/** The source's choices in a TLS handshake. The library's interface has old collections. */
@SuppressWarnings("JdkObsolete")
final class SourceTls extends AbstractTlsClient {
    private final PeerAuthenticator authenticator;
    private TlsProfile.Exported exported;

    SourceTls(PeerAuthenticator authenticator) {
        super(TlsProfile.CRYPTO);
        this.authenticator = authenticator;
    }

    /** Returns the connection's secrets, or null while the handshake is not complete. */
    TlsProfile.Exported exported() {
        return exported;
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
    @SuppressWarnings("rawtypes")
    protected Vector<Integer> getSupportedGroups(Vector roles) {
        Vector<Integer> groups = new Vector<>();
        groups.add(TlsProfile.GROUP);
        return groups;
    }

    @Override
    protected Vector<ProtocolName> getProtocolNames() {
        return TlsProfile.protocols(authenticator.versions());
    }

    @Override
    public Vector<TlsPSKExternal> getExternalPSKs() {
        Vector<TlsPSKExternal> keys = new Vector<>();
        keys.add(TlsProfile.external(authenticator.imported()));
        return keys;
    }

    /** Without it no message is sent that only old middleboxes need. */
    @Override
    public boolean shouldUseCompatibilityMode() {
        return false;
    }

    @Override
    public void notifySelectedPSK(TlsPSK selected) throws IOException {
        if (selected == null) {
            throw new TlsFatalAlert(AlertDescription.handshake_failure, "the target does not use the shared key");
        }
    }

    @Override
    public TlsAuthentication getAuthentication() throws IOException {
        throw new TlsFatalAlert(AlertDescription.unexpected_message, "the target sends a certificate");
    }

    @Override
    public void notifyHandshakeComplete() throws IOException {
        super.notifyHandshakeComplete();
        exported = TlsProfile.Exported.of(context);
    }
}
