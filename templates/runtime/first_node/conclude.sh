# Whatever ends this script, there is a sentence on it, and the outcome is on record.
conclude() {    # conclude STATUS
    local status=$1 file='' first_rank=''
    set +eu
    trap '' TERM INT USR1    # what is decided now stays
    optional settle_walltime
    if [[ -n $word ]]; then
        :    # the chain has said what there is to say
    elif [[ -n $stop ]]; then
        if [[ $stop == SIG* ]]; then word=cancelled; fi
        status=143
        say "ENDED by $stop"
    elif ((status == 0)); then
        word='done'
        if [[ -e $run_dir/STOPPED ]]; then
            say "STOPPED early, in order"
        else
            say "DONE: all processes ended well"
            : >"$run_dir/DONE"
        fi
    elif [[ -n $reason ]]; then
        say "FAILED: $reason"
    else
        find_cause
        if [[ -n $file ]]; then reason=": ${first_rank:+rank $first_rank on }$node, by $file"; fi
        say "FAILED with exit code $status$reason"
        if [[ -n $file ]]; then tail -n 20 "$file"; fi
    fi
    record_outcome "${word:-failed}" "$status"
    rm -rf "${tmp_dir-}" "$attempt_dir/from_shell"
    exit "$status"
}
record_outcome() {    # record_outcome WORD STATUS
    printf '%-80s\n' "$*" 1<>"$attempt_dir/reserved" || :
    mv "$attempt_dir/reserved" "$attempt_dir/outcome" || :
}
lost_another() { grep -qsE '(closed|reset) by peer|Broken pipe|ncclRemoteError' "$1"; }
