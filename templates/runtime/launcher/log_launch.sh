log_launch() {    # what the launcher prints comes after the user's own error
    exec >"$attempt_dir/launcher.log" 2>&1 </dev/null
    launch 0
}
