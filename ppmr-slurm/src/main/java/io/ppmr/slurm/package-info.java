/**
 * The part for Slurm. It has ranks that srun starts and announces, MPI jobs in pods, and the orders to move them. It
 * also has the jobs that users announce at a source.
 */
package io.ppmr.slurm;
