find_meeting() {    # records which processes have connections, web servers aside
    local links record=$attempt_dir/met-$node_rank
    [[ $(sort -u "$record" | wc -l) -lt 2 ]] || return
    links=$(ss -Htnp state established '( not dport = :443 and not dport = :80 )') || return
    links+=$'\n'$(grep -lsE '/lib(mpi|ucp|fabric)' /proc/[0-9]*/maps)    # these may not use TCP
    sed -nE 's,.*(pid=|/proc/)([0-9]*).*,/proc/\2/environ,p' <<<"$links" |
        xargs -r grep -hszF "ERROR_FILE=$run_dir/errors/$node-" | tr '\0' '\n' >>"$record"
}
