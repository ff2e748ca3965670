/**
 * Carries chunks and frames from the source to the target. A {@link Transport} makes a {@link SourcePath} on the
 * source's side and a {@link TargetPath} on the target's; {@link ControlLink} carries the frames beside them.
 */
package io.ppmr.transport;
