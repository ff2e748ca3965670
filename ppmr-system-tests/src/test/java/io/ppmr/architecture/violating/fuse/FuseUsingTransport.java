package io.ppmr.architecture.violating.fuse;

import io.ppmr.architecture.violating.transport.TransportUsingLibrary;

/** Breaks a rule on purpose: a filesystem that depends on the transport of its bytes. */
public interface FuseUsingTransport {
    TransportUsingLibrary transport();
}
