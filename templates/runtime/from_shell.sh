# Variables of the submitting shell, which reach the first node alone: pbsdsh and mpiexec hand on
# nothing. They may be secrets: a file for their owner alone, gone when the job ends.
hand_on() {
    local name
    (umask 077 && : >"$attempt_dir/from_shell")
    for name in "${FROM_SHELL[@]}"; do
        [[ -n ${!name+set} ]] || die "the submitting shell has no variable $name; export it there"
        printf 'export %s=%q\n' "$name" "${!name}"
    done >"$attempt_dir/from_shell"
}
take_over() {
    # shellcheck source=/dev/null
    . "$attempt_dir/from_shell"
}
