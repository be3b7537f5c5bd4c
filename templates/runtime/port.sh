# A role that is asked at its port counts as ready once it listens there itself.
watch_port() {    # watch_port PORT: looks who listens, on this node; what cannot be seen counts
    local heard foreign=0
    while kill -0 "$$" && ((foreign < 2)) && heard=$(ss -Htlnpe "sport = :$1"); do
        if [[ -z $heard ]]; then foreign=0; elif is_other; then ((++foreign)); else break; fi
        sleep 1
    done
    if ((foreign < 2)); then : >"$attempt_dir/listens"; return; fi
    echo "port $1 on $node is in use by another program" >"$attempt_dir/taken"
}
is_other() {    # whether those who listen are seen, and none is of this role
    local pid uid
    while read -r pid; do
        if is_own "$pid"; then return 1; fi
    done < <(grep -oP 'pid=\K\d+' <<<"$heard")
    [[ $heard != *pid=* ]] || return 0
    uid=$(grep -oP -m 1 'uid:\K\d+' <<<"$heard") && [[ $uid != "$EUID" ]] && getent passwd "$uid"
}
is_own() {    # is_own PID: by its mark or its parents; a daemon or a container may be its own
    local it=$1
    if grep -qszxF "JOBGEN_AGENT=$tmp_dir" "/proc/$1/environ"; then return; fi
    if grep -qsP '^PPid:\t1$' "/proc/$1/status"; then return; fi
    [[ $(readlink "/proc/$1/ns/mnt") == "$(readlink /proc/self/ns/mnt)" ]] || return 0
    while ((it > 1 && it != PPID)); do it=$(sed -n 's/^PPid:\t//p' "/proc/$it/status"); done
    ((it == PPID))
}
