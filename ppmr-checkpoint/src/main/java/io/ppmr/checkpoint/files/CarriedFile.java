package io.ppmr.checkpoint.files;

/**
 * A file that moves with a job. Immutable.
 *
 * @param file the file of a process of the rank
 * @param path its path at the target: a character from 0 to 255 for each byte
 * @param inode its number at the source
 * @param device its filesystem at the source
 * @param replaces whether it replaces a file of the job's user at the target
 */
public record CarriedFile(OpenedFile file, String path, String inode, String device, boolean replaces) {}
