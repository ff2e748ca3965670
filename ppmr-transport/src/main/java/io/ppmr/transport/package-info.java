/**
 * How chunks and frames get from the source to the target. A {@link Transport} makes a {@link RegionExporter} on
 * the source's side and a {@link ChunkPuller} on the target's; {@link ControlLink} carries the frames beside it.
 */
package io.ppmr.transport;
