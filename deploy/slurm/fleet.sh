#!/bin/bash
# A bench on all GPUs of an allocation: sbatch deploy/slurm/fleet.sh core --store postgresql://kb@db/kernels
#SBATCH --job-name=kernelblaster
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --exclusive
#SBATCH --time=04:00:00
set -euo pipefail

address() { srun --nodes=1 --ntasks=1 --nodelist="$1" hostname --ip-address | awk '{print $1}'; }
# `fleet start` returns when the node runs; the step stays, since Slurm ends what a step leaves behind.
node='kernelblaster fleet start "$@" && while kernelblaster fleet status > /dev/null; do sleep 30; done'

mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=$(address "${machines[0]}")
export KERNELBLASTER_DATA="${KERNELBLASTER_DATA:-$HOME/.local/share/kernelblaster-$SLURM_JOB_ID}"  # seen by all machines
kernelblaster fleet token

for number in "${!machines[@]}"; do
    machine=${machines[$number]}
    own=(--host "$(address "$machine")" --token "$KERNELBLASTER_DATA/fleet/token")
    if ((number)); then own+=(--join "$head:6379"); fi
    # what a node knows of itself is its own, the token is everybody's
    KERNELBLASTER_DATA="$KERNELBLASTER_DATA/$machine" \
        srun --nodes=1 --ntasks=1 --nodelist="$machine" --overlap bash -c "$node" node "${own[@]}" &
    if ((!number)); then sleep 30; fi
done

kernelblaster bench "$@" --fleet "ray://$head:10001" --token "$KERNELBLASTER_DATA/fleet/token"
