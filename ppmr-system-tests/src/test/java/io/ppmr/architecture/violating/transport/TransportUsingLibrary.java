package io.ppmr.architecture.violating.transport;

import java.util.zip.CRC32C;

/** Breaks a rule on purpose: sees a library that belongs to another module. */
public interface TransportUsingLibrary {
    CRC32C library();
}
