# Whatever ends this script, there is a sentence on it, and the outcome is on record.
conclude() {    # conclude STATUS
    local status=$1 file='' first_rank=''
    set +eu
    trap '' TERM INT    # what is decided now stays
    optional settle_walltime
    if [[ -n $word ]]; then
        :    # the chain has said what there is to say
    elif [[ -n $stop ]]; then
        if [[ $stop == SIG* ]]; then word=cancelled; fi
        status=143
        say "ENDED by $stop"
    elif [[ -n $reason ]]; then
        say "FAILED: $reason"
    elif ((status)); then
        find_cause
        if [[ -n $file ]]; then reason="${first_rank:+rank $first_rank on }$node, by $file"; fi
        say "FAILED with exit code $status${reason:+: $reason}"
        if [[ -n $file ]]; then tail -n 20 "$file"; fi
    elif [[ -e $run_dir/STOPPED ]]; then
        word='done'
        say "STOPPED early, in order"
    else
        word='done'
        say "DONE: all processes ended well"
        : >"$run_dir/DONE"
    fi
    record_outcome "${word:-failed}" "$status"
    rm -rf "${tmp_dir-}"
    exit "$status"
}
record_outcome() {    # record_outcome WORD STATUS
    printf '%-80s\n' "$*" 1<>"$attempt_dir/reserved" || :
    mv "$attempt_dir/reserved" "$attempt_dir/outcome" || :
}
