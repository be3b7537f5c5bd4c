# PBS notices a lost node after hours. A node is lost that shows the same sign of life in SILENT
# looks, BEAT seconds apart, or none in MISSING: an NFS client may believe for 60 s in what it knows
# of a file. A file system that stands still is not the node's fault: so looks count, not seconds.
BEAT=20 SILENT=6 MISSING=15 turn=0 reached='' signs=() looks=()
find_lost() {    # sets lost and reason
    local index sign most why
    if ((turn++ % BEAT)); then return; fi
    for index in "${!NODES[@]}"; do
        if [[ -e $attempt_dir/node-$index.ended ]]; then continue; fi
        read -r sign 2>/dev/null <"$attempt_dir/node-$index.alive" || sign=''
        most=$((${#sign} ? SILENT : MISSING))
        if [[ $sign != "${signs[index]-}" ]]; then looks[index]=0 signs[index]=$sign; fi
        why="no sign of life for $((${looks[index]:=0} * BEAT)) s"
        if ! kill -0 "${launchers[index]:-${launchers[0]}}" 2>/dev/null; then
            most=4    # its launcher has ended, and a file server may be late to show its record
            why+=": $(tail -n 1 "$attempt_dir/launcher.log")"
        fi
        if ((looks[index]++ >= most)); then
            reason=${lost:+$reason; so is ${NODES[index]}} lost+=${lost:+ }${NODES[index]}
            reason=${reason:-": $lost is lost: $why"}
            echo "lost $lost" >"$attempt_dir/failed"
        fi
    done
}
give_sign() {    # give_sign ADDRESS: if the first node answers; it need not until it has once
    local words
    if ((turn++ % BEAT)); then return; fi
    words=$(LC_ALL=C timeout 5 bash -c ": <>/dev/tcp/$1 && echo refused" 2>&1)
    if [[ $words == *refused* ]]; then reached=yes; fi
    if [[ $words == *refused* || -z $reached ]]; then echo "$turn" >"$own.alive"; fi
}
