/**
 * The objects of the kernel that a job's processes share with others of their node: which processes hold the other side
 * of a pipe, a socket or a terminal, or the same memory or open file. {@link io.ppmr.checkpoint.sharing.HolderScan}
 * reads it out of {@code /proc}, {@link io.ppmr.checkpoint.sharing.SharingRules} decides, and touches nothing.
 */
package io.ppmr.checkpoint.sharing;
