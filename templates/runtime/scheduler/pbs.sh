find_job() {    # sets job_id, and job_number, from which the port follows
    [[ -n ${PBS_JOBID-} ]] || die "this is no PBS job; submit this file with qsub"
    cd "$PBS_O_WORKDIR"
    loosen_umask
    # A task of an array is 12[3].server: brackets are patterns to many a tool.
    job_id=${PBS_JOBID%%.*}
    job_id=${job_id/[/_}
    job_id=${job_id/]/}
    job_number=${job_id%_*}
    optional find_task
}
loosen_umask() {    # 077 is PBS's own default, and would hide the logs from everybody else
    if [[ $(umask) == 0077 ]]; then umask 022; fi
}
