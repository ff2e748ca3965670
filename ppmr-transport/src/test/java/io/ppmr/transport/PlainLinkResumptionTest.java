package io.ppmr.transport;

import io.ppmr.transport.auth.Encryption;
import io.ppmr.transport.auth.PreSharedKey;

/** The same without encryption. */
class PlainLinkResumptionTest extends LinkResumptionTest {
    @Override
    PreSharedKey key() {
        return super.key().with(Encryption.OFF);
    }
}
