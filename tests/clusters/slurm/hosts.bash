# shellcheck shell=bash
# Hosts in namespaces on one machine: what the Slurm cluster here and the PBS
# emulator (../pbs) have in common.
#
# A host is a set of Linux namespaces (network, UTS, mount, IPC, PID) held by
# one small init process. The hosts meet on a bridge that lives in one more
# network namespace, the "switch", so the machine's own network is neither used
# nor changed.
#
# Sourcing has no effect but to set names. Whoever sources this has set:
#   HERE    the folder of the calling script
#   KIND    slurm or pbs: part of the marker's and of messages' names
#   RUN     where everything the cluster writes lives
#   PREFIX  of the network namespaces' names
#   SUBNET  first three numbers of the cluster's private addresses

: "${HERE:?}" "${KIND:?}" "${RUN:?}" "${PREFIX:?}" "${SUBNET:?}"

SWITCH=$PREFIX-switch            # network namespace that holds the bridge
BRIDGE=br0                       # the bridge, inside the switch namespace
# shellcheck disable=SC2034      # used by the scripts that source this
SETTINGS=$RUN/settings           # how the running cluster was asked for
# The caller's PATH may begin with the commands of this cluster, or of another.
HOST_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
PATIENCE=180                     # seconds: what takes two may take a minute on a busy machine

# --- messages ----------------------------------------------------------------

say()  { printf '%s: %s\n' "${0##*/}" "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die()  { warn "$*"; exit 1; }

need_root() { [[ $(id -u) -eq 0 ]] || die 'needs root (it makes namespaces)'; }

# --- the run directory -------------------------------------------------------

# It is emptied by the scripts, so it must be one that they made, or found
# empty, and marked as their own.
MARK=$RUN/.jobgen-$KIND

# claim_run: make and mark it.
claim_run() {
    [[ $RUN == /*/* ]] ||
        die "JOBGEN_${KIND^^}_RUN: an absolute path at least two levels deep, not '$RUN'"
    if [[ ! -e $MARK ]]; then
        mkdir -p "$RUN"
        [[ -z $(ls -A "$RUN") ]] || die "$RUN is not empty and no cluster's run directory"
        chmod 755 "$RUN"
        : > "$MARK"
    fi
}

# One script at a time. The lock is held on descriptor 9, which is closed for
# everything that outlives the script (see start_host).
take_lock() {
    exec 9>"$RUN/lock"
    flock -w "$PATIENCE" 9 || die "another $KIND-* script has held $RUN/lock for $PATIENCE s"
}

# load_settings: NODES and the rest, as the cluster was brought up.
load_settings() {
    [[ -r $SETTINGS ]] || die "no cluster under $RUN; start one with $KIND-up"
    # shellcheck source=/dev/null
    . "$SETTINGS"
}

# --- packages ----------------------------------------------------------------

# install_missing PACKAGE...: only what dpkg does not have. No daemon may be
# started by the packages themselves; a policy-rc.d forbids it meanwhile.
install_missing() {
    local missing=() package policy=/usr/sbin/policy-rc.d made_policy=0
    for package; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
            grep -qx installed || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    say "installing ${missing[*]}"
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' > "$policy"
        chmod 755 "$policy"
        made_policy=1
    fi
    if ! {
        apt-get -q update &&
        DEBIAN_FRONTEND=noninteractive apt-get -q -y \
            -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}"
    } > "$RUN/apt.log" 2>&1 </dev/null 9>&-; then
        ((made_policy)) && rm -f "$policy"
        tail -n 20 "$RUN/apt.log" >&2
        die "packages could not be installed (see $RUN/apt.log)"
    fi
    if ((made_policy)); then rm -f "$policy"; fi
}

# --- hosts, from outside -----------------------------------------------------

# address HOST: its IPv4 address.
address() {
    case $1 in
        ctl)   echo "$SUBNET.2" ;;
        login) echo "$SUBNET.3" ;;
        n*)    echo "$SUBNET.$((10 + ${1#n}))" ;;
    esac
}

# is_node NAME: is it one of this cluster's compute nodes?
is_node() {
    [[ $1 =~ ^n([1-9][0-9]*)$ ]] && ((BASH_REMATCH[1] <= NODES))
}

# start_time PID: when it started, in clock ticks since boot; nothing if gone.
# Field 22 of /proc/PID/stat; the name in field 2 may hold blanks, so count
# from the last ')'.
start_time() {
    local stat
    { read -r stat < "/proc/$1/stat"; } 2>/dev/null || return 1
    stat=${stat##*) }
    # shellcheck disable=SC2086    # split into words on purpose
    set -- $stat
    echo "${20}"
}

# host_pid HOST: pid of its init if that very process is still running. The
# pid file holds "PID START_TIME", so a number used again by another process
# is never taken for ours.
host_pid() {
    local pid started now
    { read -r pid started < "$RUN/hosts/$1/init.pid"; } 2>/dev/null || return 1
    now=$(start_time "$pid") || return 1
    [[ $now == "$started" ]] || return 1
    echo "$pid"
}

# thaw_host PID: let what is frozen below the init PID go on, so that it can be
# killed: a suspended job (slurm-up --cgroup) would outlive its host otherwise,
# and the next job of the same id on a node of the same name would never start.
thaw_host() {
    local pid name path
    for pid in $(pgrep --ns "$1" --nslist pid); do
        while IFS=: read -r _ name path; do
            if [[ $name == freezer && $path != / ]]; then
                { echo THAWED > "/sys/fs/cgroup/freezer$path/freezer.state"; } 2>/dev/null || true
            fi
        done 2>/dev/null < "/proc/$pid/cgroup" || true
    done
}

# kill_host HOST: end its init; the kernel then ends every process in the
# host's PID namespace with it. Waits until it is gone.
kill_host() {
    local pid i
    if pid=$(host_pid "$1"); then
        thaw_host "$pid"
        kill -9 "$pid" 2>/dev/null || true
        for ((i = 0; i < PATIENCE * 20; i++)); do
            host_pid "$1" >/dev/null || break
            sleep 0.05
        done
    fi
    rm -f "$RUN/hosts/$1/init.pid"
}

# make_switch: the namespace with the bridge, unless it is there.
make_switch() {
    [[ -e /run/netns/$SWITCH ]] && return
    ip netns add "$SWITCH"
    ip -n "$SWITCH" link add "$BRIDGE" type bridge
    ip -n "$SWITCH" link set "$BRIDGE" up
}

# make_link HOST: the host's network namespace, and the wire to the switch.
make_link() {
    local ns=$PREFIX-$1
    [[ -e /run/netns/$ns ]] && return
    ip netns add "$ns"
    ip link add eth0 netns "$ns" type veth peer name "to-$1" netns "$SWITCH"
    ip -n "$SWITCH" link set "to-$1" master "$BRIDGE" up
    ip -n "$ns" link set lo up
    ip -n "$ns" addr add "$(address "$1")/24" dev eth0
    ip -n "$ns" link set eth0 up
}

# reaches FROM TO: whether packets arrive; a port that nobody listens at says so as well as another.
reaches() {
    local said
    said=$(LC_ALL=C ip netns exec "$PREFIX-$1" timeout 5 \
        bash -c ": <>/dev/tcp/$(address "$2")/9" 2>&1) || [[ $said == *'Connection refused'* ]]
}

# wait_for_link HOST: until it and all that are not cut off reach each other. A
# link that has come up can take seconds, and who has asked in vain for an address asks again later.
wait_for_link() {
    local other i
    for other in login $(seq -f 'n%g' "$NODES"); do
        if [[ $other == "$1" ]] || ! host_pid "$other" >/dev/null ||
            ! ip -n "$SWITCH" link show "to-$other" up | grep -q .; then continue; fi
        for ((i = 0; i < PATIENCE; i++)); do
            if reaches "$1" "$other" && reaches "$other" "$1"; then continue 2; fi
            sleep 0.1
        done
        return 1
    done
}

# remove_hosts HOST...: end them, then the namespaces and the bridge in them.
remove_hosts() {
    local host
    for host; do
        kill_host "$host"
        ip netns del "$PREFIX-$host" 2>/dev/null || true
    done
    ip netns del "$SWITCH" 2>/dev/null || true
}

# start_host HOST COMMAND...: run COMMAND as PID 1 of a new host and
# wait until it has made hosts/HOST/ready, or has ended. It must
# begin with begin_host. Its output goes to log/HOST.init.log. Nothing is
# inherited: not the lock (descriptor 9), not the terminal.
start_host() {
    local host=$1 dir=$RUN/hosts/$1 i
    shift
    host_pid "$host" >/dev/null && return
    rm -f "$dir/ready"
    mkdir -p "$dir/spool"
    setsid nsenter --net="/run/netns/$PREFIX-$host" \
        unshare --mount --propagation private --uts --ipc --pid --fork \
            --kill-child \
        env -i PATH="$HOST_PATH" LANG="${LANG:-C.UTF-8}" "$@" \
        </dev/null >>"$RUN/log/$host.init.log" 2>&1 9>&- &
    for ((i = 0; i < PATIENCE * 20; i++)); do
        [[ -e $dir/ready ]] && host_pid "$host" >/dev/null && return
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    warn "$host did not start; the end of $RUN/log/$host.init.log:"
    tail -n 20 "$RUN/log/$host.init.log" >&2
    return 1
}

# exec_on_host HOST COMMAND...: become COMMAND on the host. Compute nodes and
# ctl have a PID namespace of their own, hence one more process between. login
# has none for what is run on it, so that COMMAND keeps this process's id and
# gets the signals sent to it.
exec_on_host() {
    local host=$1 pid flags
    shift
    pid=$(host_pid "$host") || die "host $host is not up"
    flags=(--mount --uts --ipc --net)
    [[ $host == login ]] || flags+=(--pid)
    # shellcheck disable=SC2016    # expanded by the inner shell
    exec nsenter --target "$pid" "${flags[@]}" -- \
        /bin/sh -c 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' sh "$PWD" "$@"
}

# on_host HOST COMMAND...: run it on the host and come back.
on_host() { (exec_on_host "$@"); }

# --- hosts, from inside (PID 1 of a new host) --------------------------------

# begin_host HOST: write its pid file. /proc is still the machine's own here,
# so this is the pid seen from outside. No command may run before the read: it
# would read its own stat.
begin_host() {
    local stat dir=$RUN/hosts/$1 outer_pid
    read -r stat < /proc/self/stat
    outer_pid=${stat%% *}
    # shellcheck disable=SC2086        # split into words on purpose
    set -- "$1" ${stat##*) }
    printf '%s %s\n' "$outer_pid" "${21}" > "$dir/init.pid.new"
    mv "$dir/init.pid.new" "$dir/init.pid"
    cd /
    hostname "$1"
}

# own_files HOST HOSTS_FILE: the host's own /run and /dev/shm, and its own copy
# of /etc with its name, the given hosts file and an empty resolver (there is
# no DNS: fail at once). Copies and whole folders, not single files mounted
# over the machine's: such a mount is lost as soon as anybody replaces the file
# below it.
own_files() {
    local dir=$RUN/hosts/$1
    mkdir -p "$dir/etc"
    mount -t tmpfs -o mode=755 "etc-$1" "$dir/etc"
    cp -a /etc/. "$dir/etc/"
    mount --bind "$dir/etc" /etc
    rm -rf /etc/hosts /etc/hostname /etc/resolv.conf
    cp "$2" /etc/hosts
    echo "$1" > /etc/hostname
    echo 'options timeout:1 attempts:1' > /etc/resolv.conf
    mount -t tmpfs -o mode=755 "run-$1" /run
    mkdir -p /run/lock
    chmod 1777 /run/lock
    mount -t tmpfs -o mode=1777 "shm-$1" /dev/shm
}

# own_sys HOST: show the host's own network devices under /sys, not the
# machine's. The cgroup trees mounted below the machine's /sys are kept.
own_sys() {
    local dir=$RUN/hosts/$1
    mkdir -p "$dir/cgroup"
    mount --rbind /sys/fs/cgroup "$dir/cgroup"
    mount -t sysfs sysfs /sys
    mount --rbind "$dir/cgroup" /sys/fs/cgroup
}

# own_tmp HOST FOLDER SHARED...: the host's own FOLDER (/tmp, /var/tmp), in
# which the folders SHARED that lie below it are still everybody's.
own_tmp() {
    local dir=$RUN/hosts/$1/${2//\//_} folder=$2 shared
    shift 2
    mkdir -p "$dir"
    mount -t tmpfs -o mode=1777 "own-tmp" "$dir"
    for shared; do
        [[ $shared == "$folder"/* && -d $shared ]] || continue
        mkdir -p "$dir/${shared#"$folder/"}"
        mount --rbind "$shared" "$dir/${shared#"$folder/"}"
    done
    mount --rbind "$dir" "$folder"
}
