# shellcheck shell=bash
# Shared by slurm-up, slurm-down, slurm-fail, slurm-heal and slurm-on.
#
# The cluster is made of hosts (see hosts.bash):
#
#   ctl     slurmctld (and slurmdbd + mariadbd with --accounting)
#   login   where jobs are submitted
#   n1..nN  compute nodes, one slurmd each
#
# Every host is started by slurm-node-init and runs its own munged.
#
# Only settings, path names and small functions here: sourcing has no effect.

# The folder these scripts are in; every script that sources this sets it too.
: "${HERE:?slurm-lib.bash is sourced by the slurm-* scripts}"

# --- settings a caller may override ------------------------------------------

# shellcheck disable=SC2034      # used by hosts.bash
KIND=slurm
# Where everything the cluster writes lives.
RUN=${RUN_OPTION:-${JOBGEN_SLURM_RUN:-/tmp/jobgen-slurm}}
# Prefix of the network namespaces' names; a second cluster needs another
# prefix and another run directory.
PREFIX=${JOBGEN_SLURM_PREFIX:-jg-s}
# First three numbers of the cluster's private addresses.
SUBNET=${JOBGEN_SLURM_SUBNET:-10.77.0}

# shellcheck source=hosts.bash
. "$HERE/hosts.bash"

# --- hosts -------------------------------------------------------------------

# host_names: all hosts of the settings in force (NODES), in start order.
host_names() {
    local i
    echo ctl
    echo login
    for ((i = 1; i <= NODES; i++)); do echo "n$i"; done
}

# start_role HOST ROLE
start_role() {
    start_host "$1" bash "$HERE/slurm-node-init" "$1" "$2" "$RUN" "$HERE"
}

# node_state NAME: as slurmctld has it, such as IDLE, DOWN+NOT_RESPONDING.
node_state() {
    on_host login scontrol --oneliner show node "$1" 2>/dev/null |
        sed -n 's/.* State=\([^ ]*\).*/\1/p'
}

# wait_ready NODE...: until each node is idle or busy and responds.
wait_ready() {
    local end=$((SECONDS + PATIENCE)) node state waiting
    while :; do
        waiting=
        for node in "$@"; do
            state=$(node_state "$node") || true
            case $state in
                IDLE | MIXED | ALLOCATED | *+PLANNED | *+COMPLETING) ;;
                *) waiting+=" $node=${state:-unknown}" ;;
            esac
        done
        [[ -z $waiting ]] && return
        ((SECONDS < end)) || break
        sleep 0.2
    done
    warn "not ready after $PATIENCE s:$waiting (logs: $RUN/log)"
    return 1
}
