package io.ppmr.checkpoint.files;

/**
 * A file that travels with a job. Immutable.
 *
 * @param file where a process of the rank has it
 * @param path by which the target has it: a character from 0 to 255 for each byte
 * @param inode its number at the source
 * @param device its filesystem there
 * @param replaces whether it takes the place of a file of the job's user at the target
 */
public record CarriedFile(OpenedFile file, String path, String inode, String device, boolean replaces) {}
