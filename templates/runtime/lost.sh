# A node is lost if its sign of life stays the same in $most_same looks, $pause seconds apart, or
# is absent in $most_absent: a file server may lag by 60 s. If it hangs, so does the look.
pause=20 most_same=6 most_absent=15 turn=0 late='' reached='' signs=() looks=()
find_lost() {    # sets lost and reason; not started: its launcher ended before it recorded a start
    local index own words sign why most beat=$((turn++ % pause))
    for index in "${!names[@]}"; do
        own=$attempt_dir/node-$index
        if ! kill -0 "${launchers[index]:-${launchers[0]}}" 2>&- && [[ ! -e $own.started ]]; then
            words=$(grep -hsF -D skip "$run_dir/" "$attempt_dir/launcher.log" "/proc/$$/fd/2" |
                grep -v '^jobgen: ' | tail -n 1 | grep . || tail -n 1 "$attempt_dir/launcher.log")
            why=": not started: ${words//"$PWD/"/}" most=$((turn == ${late:=$turn}))
        elif ((beat)) || [[ -e $own.ended ]]; then continue; else
            read -r sign 2>/dev/null <"$own.alive" || sign=''
            if [[ $sign != "${signs[index]-}" ]]; then looks[index]=0 signs[index]=$sign; fi
            why=" is lost: no sign of life for $((${looks[index]:=0} * pause)) s"
            most=$((${#sign} ? most_same : most_absent))
        fi
        if ((looks[index]++ >= most)); then
            reason=${lost:+$reason; so is ${names[index]}} lost+=${lost:+ }${names[index]}
            reason=${reason:-": $lost$why"}
            printf 'lost %s\n%s\n' "$lost" "${reason#: }" >"$attempt_dir/failed"
        fi
    done
}
give_sign() {    # give_sign ADDRESS: while the first node answers, or has never answered
    local words
    if ((turn++ % pause)); then return; fi
    words=$(LC_ALL=C timeout 5 bash -c ": <>/dev/tcp/$1 && echo refused" 2>&1)
    if [[ $words == *refused* ]]; then reached=yes; fi
    if [[ $words == *refused* || -z $reached ]]; then echo "$turn" >"$own.alive"; fi
}
