package io.ppmr.transport;

/**
 * Takes chunks that the source sends unasked, each into the receive slot that was granted for it, on threads of its
 * own, from {@link Transport.Peer#open} on. What comes is told to {@link Arrivals#comes} and {@link Arrivals#came}.
 */
public non-sealed interface ChunkReceiver extends TargetPath {}
