#!/bin/bash
# For strigger: has the jobs on the nodes that it is called with move their ranks away. Run by slurmctld as SlurmUser:
#   strigger --set --node --fail --flags=PERM --program=/opt/ppmr/conf/slurm-strigger.sh
# It is called when a node is set to FAIL while jobs run there; docs/slurm.md says why not for one set to DRAIN.
squeue --noheader --states=RUNNING --nodelist="$1" --format=%A | while read -r job; do
    scancel --batch --signal=USR2 "$job"
done
