export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}    # launchers may leave them out
find_job() {    # sets job_id, and job_number, from which the port follows
    cd "${PBS_O_WORKDIR:?this is not a PBS job; submit this file with qsub}"
    # A task of an array is 12[3].server: brackets are patterns to many a tool.
    job_id=${PBS_JOBID%%.*} && job_id=${job_id/[/_} && job_id=${job_id/]/}
    # All tasks have the number of the array; this is far from those of the jobs submitted next.
    job_number=$((${job_id%_*} + 7919 * ${PBS_ARRAY_INDEX:-0}))
    loosen_umask
    if has find_task; then find_task; fi
}
loosen_umask() {    # 077 is PBS's own default: who may read the job's folder may read its logs
    local mode
    read -r mode < <(stat -c %a "runs/$JOB_NAME/$job_id" "runs/$JOB_NAME" . 2>/dev/null)
    if [[ $(umask) == 0077 ]]; then umask "$(printf %o $((022 | ~0$mode & 077)))"; fi
}
