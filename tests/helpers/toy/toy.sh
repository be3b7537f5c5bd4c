find_job() {    # sets job_id, and job_number, from which the port follows
    [[ -n ${TOY_JOB-} ]] || die "this is not a job of Toy; submit this file with toysub"
    job_id=$TOY_JOB job_number=$TOY_JOB
}
