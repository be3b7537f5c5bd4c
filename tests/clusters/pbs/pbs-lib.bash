# shellcheck shell=bash
# Shared by pbs-up, pbs-down, pbs-fail, pbs-heal and pbs-on.
#
# The cluster is made of hosts in namespaces (see ../slurm/hosts.bash):
#
#   login   the server with its scheduler (server.py); where jobs are submitted
#   n1..nN  compute nodes, one mom each (mom.py), which is the host's PID 1
#
# Only settings and path names here: sourcing has no effect.

# The folder these scripts are in; every script that sources this sets it too.
: "${HERE:?pbs-lib.bash is sourced by the pbs-* scripts}"

# shellcheck disable=SC2034      # used by hosts.bash
KIND=pbs
# Where everything the cluster writes lives.
RUN=${RUN_OPTION:-${JOBGEN_PBS_RUN:-/tmp/jobgen-pbs}}
# Prefix of the network namespaces' names; a second cluster needs another
# prefix and another run directory.
PREFIX=${JOBGEN_PBS_PREFIX:-jg-e}
# First three numbers of the cluster's private addresses.
SUBNET=${JOBGEN_PBS_SUBNET:-10.78.0}

# shellcheck source=../slurm/hosts.bash
. "$HERE/../slurm/hosts.bash"

# start_pbs HOST: its server or mom.
start_pbs() {
    start_host "$1" bash "$HERE/pbs-node-init" "$1" "$RUN" "$HERE" "$PYTHON"
}
