package io.ppmr.system;

import io.ppmr.protocol.data.VersionRange;
import io.ppmr.transport.auth.Encryption;
import io.ppmr.transport.auth.ImportedKey;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.PreSharedKey;

/** The tests' key in a service that knows other versions of the protocol than this release. */
record ReleaseKey(PreSharedKey key, VersionRange versions) implements PeerAuthenticator {
    @Override
    public int mechanism() {
        return key.mechanism();
    }

    @Override
    public byte[] prove(Role role, byte[] transcript) {
        return key.prove(role, transcript);
    }

    @Override
    public Encryption encryption() {
        return key.encryption();
    }

    @Override
    public ImportedKey imported() {
        return key.imported();
    }

    @Override
    public byte[] seal(byte[] text) {
        return key.seal(text);
    }

    @Override
    public boolean verify(Role role, byte[] transcript, byte[] proof) {
        return key.verify(role, transcript, proof);
    }
}
