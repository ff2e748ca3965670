package io.ppmr.architecture.violating.fuse;

import io.ppmr.architecture.violating.transport.TransportUsingLibrary;

/** Breaks a rule on purpose: a filesystem that knows what carries its bytes. */
public interface FuseUsingTransport {
    TransportUsingLibrary transport();
}
