"""Causes that the scheduler tells, or the job script about its end.

The messages are those of Slurm's and PBS's daemons and commands. `tests/diagnose/logs/` has an
output for each.
"""

from jobgen.diagnose.cause import SCHEDULER, Cause

CAUSES = (
    Cause(
        "suspended",
        SCHEDULER,
        r"^\w+ \(.*\b[Ss]uspended",
        "the job is suspended: its processes are stopped, and its walltime may run on",
        "it goes on when the scheduler resumes it; who has suspended it, the administrators know",
    ),
    Cause(
        "walltime",
        SCHEDULER,
        r"\bTIMEOUT\b|^timeout\b|DUE TO TIME LIMIT|job killed: walltime \d+ exceeded limit",
        "the walltime was over",
        "ask for more with resources.walltime, or let the job go on in another: walltime: "
        "{{notice: 5m, then: {go_on}}}; the trainer resumes from its newest checkpoint",
    ),
    Cause(
        "out-of-memory-host",
        (*SCHEDULER, "rank", "agent"),
        r"OUT_OF_MEMORY|[Oo]ut [Oo]f [Mm]emory handler|[Dd]etected \d+ oom[-_]kill"
        r"|job killed: (v?mem|pmem|pvmem) \S+ exceeded limit|Exceeded (job|step) memory limit"
        r"|Memory cgroup out of memory|oom-kill:",
        "the node's memory was used up, and the system killed a process for it",
        "ask for more with resources.memory_per_node; fewer data-loader workers and smaller "
        "prefetch use less",
    ),
    Cause(
        "preempted",
        SCHEDULER,
        r"\bPREEMPTED\b|DUE TO PREEMPTION",
        "the job was preempted by another",
        "submit again, or let it go on by itself with on_walltime: {{then: {go_on}}}; other queues "
        "or QoS are not preempted",
    ),
    Cause(
        "node-lost",
        (*SCHEDULER, "agent"),
        r"^node lost( \(no sign of life from (?P<node5>[^,)]+))?|\bNODE_FAIL\b|\bBOOT_FAIL\b"
        r"|DUE TO (\S+ )?NODE FAILURE"
        r"|Node failure on (?P<node3>\S+)|job killed: node \d+ \((?P<node4>[^)]+)\)",
        "a node was lost",
        "submit again; {leave_out}, and tell your administrators",
    ),
    Cause(
        "dependency",
        SCHEDULER,
        r"DependencyNeverSatisfied|deleted as result of dependency|depend\w* .*never be satisfied",
        "the job it waits for has failed, so it will never start",
        "cancel it, mend the first job, and submit both again; afterany waits for any end",
    ),
    Cause(
        "output-folder",
        SCHEDULER,
        r"JobLaunchFailure|RaisedSignal:53|Could not open stdout file|Unable to copy file",
        "the job's output could not be written, so it was not even started",
        "make the folder of {output} before you submit; `jobgen submit` does",
    ),
    Cause(
        "not-started",
        SCHEDULER,
        r"too many failed attempts to run|Exit_status -[123]\b"
        r"|launch[ _]failed[ _]requeued[ _]held",
        "the scheduler could not start the job on its nodes",
        "see that the folder of {output} exists; else tell your administrators: the daemons' logs "
        "on the nodes say why. Release it ({release}), or submit again",
    ),
    Cause(
        "held",
        SCHEDULER,
        r"^(queued|stopping) .*"
        r"(\bJobHeld(User|Admin)\b|[Jj]ob (is )?held by|requeued[ _]in[ _]held)",
        "the job is held",
        "release it with {release}; where an administrator holds it, ask them",
    ),
    Cause(
        "cancelled",
        SCHEDULER,
        r"^cancelled\b|job deleted|\*\*\* JOB \d+ ON \S+ CANCELLED (?!.*DUE TO JOB REQUEUE)",
        "the job was cancelled",
        "nothing is wrong, if that was you",
    ),
    Cause(
        "refused-resources",
        SCHEDULER,
        r"Can Never Run|Requested node configuration is not available|PartitionNodeLimit"
        r"|PartitionTimeLimit|AssocGrp\w+Limit|QOSMax\w+|BadConstraints|Invalid account"
        r"|\bInvalidAccount\b|\bInvalidQOS\b|\bReservationDeleted\b|InactiveLimit",
        "the scheduler will not start the job as it is asked for",
        "compare resources, queue and account with the site's limits (`jobgen sites show`)",
    ),
)
