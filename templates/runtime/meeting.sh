find_meeting() {    # the error files of the node's processes with connections, but to web servers
    local looks=0 links record=$attempt_dir/met-$node_rank
    local mine=TORCHELASTIC_ERROR_FILE=$run_dir/errors/$node-
    set +e
    while sleep 1 && [[ -d $tmp_dir ]] && (($(sort -u "$record" | wc -l) < 2)); do
        ((looks++ < 60 || looks % 30 == 0)) || continue
        links=$(ss -Htnp state established '( not dport = :443 and not dport = :80 )') || break
        links+=$'\n'$(grep -lsE '/lib(mpi|ucp|fabric)' /proc/[0-9]*/maps)    # may do without TCP
        sed -nE 's,.*(pid=|/proc/)([0-9]*).*,/proc/\2/environ,p' <<<"$links" |
            xargs -r grep -hszF "$mine" | tr '\0' '\n' >>"$record"
    done
}
