#!/bin/bash
# A batch script whose ranks can be moved off a failing node; docs/user/slurm-and-mpi.md explains it line by line.
# One node more than the ranks need: the first is the spare, and runs this script.
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
# The job goes on when a node that its ranks have left is switched off.
#SBATCH --no-kill

# A signal that comes before slurm-run listens must not kill it.
trap '' USR2
ppmr slurm-run --checkpointer criu -- ./solver input.dat &
run=$!

# In the background, because a shell runs a trap only when a foreground command ends. A trap also ends "wait",
# before slurm-run ends: then it is waited for again.
again=yes
trap 'again=yes; kill -USR2 "$run"' USR2
while [ $again = yes ]; do
    again=no
    wait "$run"
    status=$?
done
exit "$status"
