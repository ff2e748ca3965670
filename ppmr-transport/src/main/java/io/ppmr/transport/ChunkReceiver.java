package io.ppmr.transport;

/**
 * Receives chunks that the source sends, each into its granted receive slot. It uses its own threads, from {@link
 * Transport.TransportPeer#open} on. Chunks are reported by {@link Arrivals#onChunkStart} and {@link
 * Arrivals#onChunkEnd}.
 */
public non-sealed interface ChunkReceiver extends TargetPath {}
