"""Causes that the scheduler tells, or the job script about its end.

The messages are those of Slurm's and PBS's daemons and commands. `tests/diagnose/logs/` has an
output for each. The first that matches counts: a lost node stands before the cancellation that
follows from it.
"""

from jobgen.diagnose.cause import SCHEDULER, Cause

CAUSES = (
    Cause(
        "suspended",
        SCHEDULER,
        r"^\w+ \(.*\b[Ss]uspended",
        "the job is suspended: its processes are stopped, and its walltime may run on",
        "it goes on when the scheduler resumes it; the administrators know who suspended it",
        fault="unknown",
    ),
    Cause(
        "walltime",
        SCHEDULER,
        r"\bTIMEOUT\b|^timeout\b|DUE TO TIME LIMIT|job killed: walltime \d+ exceeded limit",
        "the walltime was over",
        "ask for more with resources.walltime, or let another start go on: on_walltime: "
        "{{notice: 5m, then: {go_on}}}; the trainer resumes from its newest checkpoint",
    ),
    Cause(
        "out-of-memory-host",
        (*SCHEDULER, "rank", "agent"),
        r"OUT_OF_MEMORY|[Oo]ut [Oo]f [Mm]emory handler|[Dd]etected \d+ oom[-_]kill"
        r"|job killed: (v?mem|pmem|pvmem) \S+ exceeded limit|Exceeded (job|step) memory limit"
        r"|Memory cgroup out of memory|oom-kill:",
        "the node's memory was used up, and the system killed a process",
        "ask for more with resources.memory_per_node; fewer data-loader workers and smaller "
        "prefetch use less",
    ),
    Cause(
        "preempted",
        SCHEDULER,
        r"\bPREEMPTED\b|DUE TO PREEMPTION|(?<!been )\b[Pp]reempted\b",
        "the scheduler preempted the job in favour of another",
        "submit again, or let it start again with on_walltime: {{then: {go_on}}}; other queues "
        "or QoS are not preempted",
        fault="machine",
    ),
    Cause(
        "launch-failed",
        (*SCHEDULER, "agent"),
        r"Task launch for \S+ failed on node (?P<node1>\S+?): (?!Unable to layout|More processors)"
        r"|Could not run prolog|[Pp]rolog (error|hook failure|failed)"
        r"|error launching .* on (?P<node2>\S+)|[Uu]nable to (create|contact) .*slurmstepd"
        r"|slurmstepd: error: execve\(\): \S+/slurm_script: |Munge (en|de)code failed"
        r"|(srun|slurmstepd): .*Invalid user id"
        r"|launch[ _]failed[ _]requeued[ _]held(: (?P<node3>\S+) could not start it \()?",
        "the scheduler could not start the job",
        "the scheduler's words above say why; {leave_out}, and tell your administrators",
        fault="machine",
    ),
    Cause(
        "run-folder",
        SCHEDULER,
        r"attempts/\d+/script: (No such file or directory|Permission denied|.*file handle)"
        r"|mkdir: cannot create directory .*/logs/(?P<node1>[\w.-]+)\W: "
        r"|cannot create (temp file|directory).*Read-only|error \d+ on spawn"
        r"|chdir\(\S+\): No such file|couldn't chdir to",
        "a node cannot see, enter or write the job's folder, so its part did not start",
        "submit from a file system that all nodes mount for writing, home included; if one node "
        "alone fails, tell your administrators",
        fault="unknown",
    ),
    Cause(
        "node-lost",
        (*SCHEDULER, "agent"),
        r"^node lost( \(no sign of life from (?P<node5>[^,)]+))?|\bNODE_FAIL\b|\bBOOT_FAIL\b"
        r"|DUE TO (\S+ )?NODE FAILURE"
        r"|Node failure on (?P<node3>\S+)|job killed: node \d+ \((?P<node4>[^)]+)\)"
        r"|requested job die|Remote daemon: .* on node (?P<node6>\S+)"
        r"|\bping (RPC timeout from|failed on) (?P<node7>[\w-]+)"
        r"|slurm_receive_msgs: \[+(?P<node8>[^\]]+)\S* failed|lost communication with its daemon"
        r"|\bnode has (died|crashed)|\b[Nn]ode .*marked (as )?dead",
        "a node was lost",
        "submit again; {leave_out}, and tell your administrators",
        fault="machine",
    ),
    Cause(
        "dependency",
        SCHEDULER,
        r"DependencyNeverSatisfied|^\w+ \(([^;]*; )*it needed |deleted as result of dependency"
        r"|depend\w* .*never be satisfied",
        "the job that it waits for failed, so it will never start",
        "cancel it, repair the first job, and submit both again; afterany waits for any end",
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
        r"too many failed attempts to run|Exit_status -[123]\b",
        "the scheduler could not start the job on its nodes",
        "check that the folder of {output} exists; if it does, ask your administrators: the "
        "daemons' logs on the nodes say why; then release it ({release}), or submit again",
        fault="unknown",
    ),
    Cause(
        "held",
        SCHEDULER,
        r"^(queued|stopping) .*"
        r"(\bJobHeld(User|Admin)\b|[Jj]ob (is )?held by|requeued[ _]in[ _]held)",
        "the job is held",
        "release it with {release}; if an administrator holds it, ask them",
        fault="unknown",
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
        (*SCHEDULER, "agent"),
        r"Can Never Run|Requested node configuration is not available|PartitionNodeLimit"
        r"|PartitionTimeLimit|AssocGrp\w+Limit|QOSMax\w+|BadConstraints|Invalid account"
        r"|\bInvalidAccount\b|\bInvalidQOS\b|\bReservationDeleted\b|InactiveLimit"
        r"|Unable to layout tasks|More processors requested|Invalid generic resource",
        "the scheduler will not start the job as it is asked for",
        "compare resources, queue and account with the site's limits (`jobgen sites show`)",
    ),
)
