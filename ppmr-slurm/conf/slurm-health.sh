#!/bin/bash
# For triggers.health of a source on a node of Slurm's: is this node set to drain, or expected to fail?
# Status 0: no; 1: yes; 126: the controller does not answer, which is not counted as an answer.
node=${SLURMD_NODENAME:-$(hostname -s)}
said=$(scontrol --oneliner show node "$node") || exit 126
[[ $said =~ (^|[[:space:]])State=([^[:space:]]+) ]] || exit 126
case ${BASH_REMATCH[2]} in
*DRAIN* | *FAIL*) exit 1 ;;
esac
