"""Causes that the scheduler tells, or the job script about its end.

The messages are those of Slurm's and PBS's daemons and commands. `tests/diagnose/logs/` has an
output for each. The first that matches counts: a lost node stands before the cancellation that
follows from it.
"""

from jobgen.diagnose.cause import SCHEDULER, Cause

CAUSES = (
    Cause(
        "suspended",
        "the job is suspended: its processes are stopped, and its walltime may run on",
        "it goes on when the scheduler resumes it; the administrators know who suspended it",
        SCHEDULER,
        r"^\w+ \(.*\b[Ss]uspended",
    ),
    Cause(
        "walltime",
        "the walltime was over",
        "ask for more with resources.walltime, or let another start go on: on_walltime: "
        "{{notice: 5m, then: {go_on}}}; the trainer resumes from its newest checkpoint",
        SCHEDULER,
        r"\bTIMEOUT\b|^timeout\b|DUE TO TIME LIMIT|job killed: walltime \d+ exceeded limit",
    ),
    Cause(
        "out-of-memory-host",
        "the node's memory was used up, and the system killed a process",
        "ask for more with resources.memory_per_node; fewer data-loader workers and smaller "
        "prefetch use less",
        (*SCHEDULER, "rank", "agent"),
        r"OUT_OF_MEMORY|[Oo]ut [Oo]f [Mm]emory handler|[Dd]etected \d+ oom[-_]kill"
        r"|job killed: (v?mem|pmem|pvmem) \S+ exceeded limit|Exceeded (job|step) memory limit"
        r"|Memory cgroup out of memory|oom-kill:",
    ),
    Cause(
        "preempted",
        "the scheduler preempted the job in favour of another",
        "submit again, or let it start again with on_walltime: {{then: {go_on}}}; other queues "
        "or QoS are not preempted",
        SCHEDULER,
        r"\bPREEMPTED\b|DUE TO PREEMPTION|(?<!been )\b[Pp]reempted\b",
        of_machine=True,
    ),
    Cause(
        "launch-failed",
        "the scheduler could not start the job",
        "the scheduler's words above say why; {leave_out}, and tell your administrators",
        (*SCHEDULER, "agent"),
        r"Task launch for \S+ failed on node (?P<node1>\S+?): (?!Unable to layout|More processors)"
        r"|Could not run prolog|[Pp]rolog (error|hook failure|failed)"
        r"|error launching .* on (?P<node2>\S+)|[Uu]nable to (create|contact) .*slurmstepd"
        r"|slurmstepd: error: execve\(\): \S+/slurm_script: |Munge (en|de)code failed"
        r"|(srun|slurmstepd): .*Invalid user id"
        r"|launch[ _]failed[ _]requeued[ _]held(: (?P<node3>\S+) could not start it \()?",
        of_machine=True,
    ),
    Cause(
        "run-folder",
        "a node cannot see, enter or write the job's folder, so its part did not start",
        "submit from a file system that all nodes mount for writing, home included; if one node "
        "alone fails, tell your administrators",
        SCHEDULER,
        r"attempts/\d+/script: (No such file or directory|Permission denied|.*file handle)"
        r"|mkdir: cannot create directory .*/logs/(?P<node1>[\w.-]+)\W: "
        r"|cannot create (temp file|directory).*Read-only|error \d+ on spawn"
        r"|chdir\(\S+\): No such file|couldn't chdir to",
        own=r"FAILED: (?P<node2>[^\s:]+): not started: (?!jobgen: )",
    ),
    Cause(
        "node-lost",
        "a node was lost",
        "submit again; {leave_out}, and tell your administrators",
        (*SCHEDULER, "agent"),
        r"^node lost( \((no sign of life from (?P<node5>[^,)]+)|(?P<node9>\S+) is lost: ))?"
        r"|\bNODE_FAIL\b|\bBOOT_FAIL\b|DUE TO (\S+ )?NODE FAILURE"
        r"|Node failure on (?P<node3>[^\s)]+)|job killed: node \d+ \((?P<node4>[^)]+)\)"
        r"|requested job die|Remote daemon: .* on node (?P<node6>\S+)"
        r"|\bping (RPC timeout from|failed on) (?P<node7>[\w-]+)"
        r"|slurm_receive_msgs: \[+(?P<node8>[^\]]+)\S* failed|lost communication with its daemon"
        r"|\bnode has (died|crashed)|\b[Nn]ode .*marked (as )?dead",
        own=r"nothing is heard from (?P<node1>[^\s;]+)"
        r"|FAILED: (?P<node2>\S+)( is lost|: not started): (?!jobgen: )",
        of_machine=True,
    ),
    Cause(
        "dependency",
        "the job that it waits for failed, so it will never start",
        "cancel it, repair the first job, and submit both again; afterany waits for any end",
        SCHEDULER,
        r"DependencyNeverSatisfied|^\w+ \(([^;]*; )*it needed |deleted as result of dependency"
        r"|depend\w* .*never be satisfied",
        own=r"error: job \S+ has (not )?ended well, so this one does not run"
        r"|error: there is no job \S+ below \S+ to wait for",
    ),
    Cause(
        "output-folder",
        "the job's output could not be written, so it was not even started",
        "make the folder of {output} before you submit; `jobgen submit` does",
        SCHEDULER,
        r"JobLaunchFailure|RaisedSignal:53|Could not open stdout file|Unable to copy file",
    ),
    Cause(
        "not-started",
        "the scheduler could not start the job on its nodes",
        "check that the folder of {output} exists; if it does, ask your administrators: the "
        "daemons' logs on the nodes say why; then release it ({release}), or submit again",
        SCHEDULER,
        r"too many failed attempts to run|Exit_status -[123]\b",
    ),
    Cause(
        "held",
        "the job is held",
        "release it with {release}; if an administrator holds it, ask them",
        SCHEDULER,
        r"^(queued|stopping) .*"
        r"(\bJobHeld(User|Admin)\b|[Jj]ob (is )?held by|requeued[ _]in[ _]held)",
    ),
    Cause(
        "cancelled",
        "the job was cancelled",
        "nothing is wrong, if that was you",
        SCHEDULER,
        r"^cancelled\b|job deleted|\*\*\* JOB \d+ ON \S+ CANCELLED (?!.*DUE TO JOB REQUEUE)",
        own=r"ENDED by SIG",
    ),
    Cause(
        "refused-step",
        "srun refused a step of the job",
        "the job did start: compare the processes, CPUs, GPUs and memory a node of this step with "
        "what the job's directives ask for",
        (*SCHEDULER, "agent"),
        r"Unable to create step for job \d+: (?!Job/step already)|Unable to layout tasks"
        r"|Task launch for \S+ failed on node \S+?: More processors",
    ),
    Cause(
        "refused-resources",
        "the scheduler will not start the job as it is asked for",
        "compare resources, queue and account with the site's limits (`jobgen sites show`)",
        (*SCHEDULER, "agent"),
        r"Can Never Run|Requested node configuration is not available|PartitionNodeLimit"
        r"|PartitionTimeLimit|AssocGrp\w+Limit|QOSMax\w+|BadConstraints|Invalid account"
        r"|\bInvalidAccount\b|\bInvalidQOS\b|\bReservationDeleted\b|InactiveLimit"
        r"|More processors requested|Invalid generic resource",
    ),
)
