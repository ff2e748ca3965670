/**
 * Slurm's part: ranks that srun starts and announces, MPI jobs in pods, the orders to move them, and the jobs that
 * users announce at a source.
 */
package io.ppmr.slurm;
