/**
 * The kernel objects that a job's processes share with other processes of their node: the other end of a pipe, a socket
 * or a terminal, or the same memory or open file. {@link io.ppmr.checkpoint.sharing.HolderScan} reads them from
 * {@code /proc}. {@link io.ppmr.checkpoint.sharing.SharingRules} decides, and touches nothing.
 */
package io.ppmr.checkpoint.sharing;
