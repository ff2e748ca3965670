/** {@code ppmr slurm-run}: a Slurm job's ranks, run so that they can be moved; docs/slurm.md says how. */
package io.ppmr.daemon.slurm;
