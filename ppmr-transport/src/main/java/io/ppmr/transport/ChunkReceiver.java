package io.ppmr.transport;

/**
 * Takes chunks that the source sends unasked, each into the receive slot that was granted for it, on threads of its
 * own, from {@link Transport.TransportPeer#open} on. What comes is told to {@link Arrivals#onChunkStart} and {@link
 * Arrivals#onChunkEnd}.
 */
public non-sealed interface ChunkReceiver extends TargetPath {}
