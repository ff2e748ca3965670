/**
 * The files that a job's processes have open or mapped, and whether another node has the same ones. {@link
 * io.ppmr.checkpoint.files.OpenedFiles} lists them, {@link io.ppmr.checkpoint.files.FileRules} compares what was seen
 * of one at both nodes. Nothing here looks at a file itself.
 */
package io.ppmr.checkpoint.files;
