/**
 * The open or mapped files of a job's processes, and whether another node has the same ones.
 * {@link io.ppmr.checkpoint.files.OpenedFiles} lists them. {@link io.ppmr.checkpoint.files.FileRules} compares the
 * facts of both nodes. This package never accesses a file itself.
 */
package io.ppmr.checkpoint.files;
