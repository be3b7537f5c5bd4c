find_meeting() {    # the error files of the node's processes with connections, but to web servers
    local looks=0 links record=$attempt_dir/met-$node_rank
    local mine=TORCHELASTIC_ERROR_FILE=$run_dir/errors/$node-
    set +e
    while sleep 1 && [[ -d $tmp_dir ]]; do
        ((looks++ < 60 || looks % 30 == 0)) || continue
        links=$(ss -Htnp state established '( not dport = :443 and not dport = :80 )') || break
        sed -n 's|.*pid=\([0-9]*\).*|/proc/\1/environ|p' <<<"$links" |
            xargs -r grep -hszF "$mine" | tr '\0' '\n' >>"$record"
        (($(sort -u "$record" | wc -l) < 2)) || break
    done
} 2>/dev/null
