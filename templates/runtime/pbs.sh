export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}    # some launchers drop them
find_job() {    # sets job_id and job_number, which determines the port
    cd "${PBS_O_WORKDIR:?this is not a PBS job; submit this file with qsub}"
    # The id of a task is 12[3].server, and many tools take brackets for patterns.
    job_id=${PBS_JOBID%%.*} && job_id=${job_id/[/_} && job_id=${job_id/]/}
    # Tasks share the array's number; the factor keeps clear of the jobs submitted next.
    job_number=$((${job_id%_*} + 7919 * ${PBS_ARRAY_INDEX:-0}))
    loosen_umask
    if has find_task; then find_task; fi
}
loosen_umask() {    # PBS's default is 077; whoever may read the folder may read the logs
    local mode
    read -r mode < <(stat -c %a "runs/$job_name/$job_id" "runs/$job_name" . 2>/dev/null)
    if [[ $(umask) == 0077 ]]; then umask "$(printf %o $((022 | ~0$mode & 077)))"; fi
}
