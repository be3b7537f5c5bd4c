# The run folder, on a file system that all nodes share. Each start of this script is an attempt
# with a number of its own, so that a job that is started again overwrites nothing.
make_run_folder() {    # sets run_dir, attempt, attempt_dir and this_script
    optional find_run
    run_dir=$PWD/runs/$JOB_NAME/${run_id:-$job_id} attempt=0
    stop='' child='' word='' reason='' lost='' why=''
    mkdir -p "$run_dir"/{logs,errors,attempts} || die "cannot make the run folder $run_dir"
    until mkdir "$run_dir/attempts/$attempt" 2>/dev/null; do
        [[ -d $run_dir/attempts/$attempt ]] || die "cannot write to $run_dir/attempts"
        attempt=$((attempt + 1))
    done
    attempt_dir=$run_dir/attempts/$attempt this_script=$run_dir/attempts/$attempt/script
    printf '%4096s' '' >"$attempt_dir/reserved"    # for the outcome, on a full disk
    cp "$0" "$this_script"
    echo "${PBS_JOBID:-$job_id}" >"$attempt_dir/job"
    [[ -e $run_dir/plan.json ]] || sed -n 's/^# jobgen: {/{/p' "$0" >"$run_dir/plan.json"
    trap 'conclude "$?"' EXIT
    trap 'end_job SIGTERM' TERM
    trap 'end_job SIGINT' INT
    optional begin_walltime
    rm -f "$run_dir"/{STOP,STOPPED,DONE}
}
