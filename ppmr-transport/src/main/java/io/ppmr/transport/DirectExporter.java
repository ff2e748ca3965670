package io.ppmr.transport;

/** The source's half of a {@link DirectTransport}, connected. */
public interface DirectExporter extends RegionExporter {

    /** What the target must find in this process's memory; to be told over the control session alone. */
    MemoryProof proof();

    /** The device and the peer, for messages. */
    String path();
}
