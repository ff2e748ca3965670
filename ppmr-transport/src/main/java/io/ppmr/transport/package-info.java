/**
 * Moves chunks and frames from the source to the target. A {@link Transport} creates a {@link SourcePath} at the source
 * and a {@link TargetPath} at the target. {@link ControlLink} transports the control frames.
 */
package io.ppmr.transport;
