/**
 * How chunks and frames get from the source to the target. The transport interface is {@link RegionExporter} on the
 * source's side and {@link ChunkPuller} on the target's; {@link ControlLink} carries the frames beside it.
 */
package io.ppmr.transport;
