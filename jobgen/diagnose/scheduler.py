"""Causes that the scheduler tells, or the job script about its end.

The messages are those of Slurm's and PBS's daemons and commands. `tests/diagnose/` has an output
for each.
"""

from jobgen.diagnose.cause import SCHEDULER, Cause

CAUSES = (
    Cause(
        "walltime",
        SCHEDULER,
        r"\bTIMEOUT\b|^timeout\b|DUE TO TIME LIMIT|job killed: walltime \d+ exceeded limit",
        "the walltime was over",
        "ask for more with resources.walltime, or let the job go on in another: walltime: "
        "{notice: 5m, then: resubmit}; the trainer resumes from its newest checkpoint",
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
        "submit again, or let it go on by itself with walltime: {then: requeue}; other queues or "
        "QoS are not preempted",
    ),
    Cause(
        "node-lost",
        (*SCHEDULER, "agent"),
        r"^node lost( \(no sign of life from (?P<node5>[^,)]+))?|\bNODE_FAIL\b|\bBOOT_FAIL\b"
        r"|DUE TO (\S+ )?NODE FAILURE"
        r"|nothing is heard from (?P<node1>[^\s;]+)|FAILED: (?P<node2>\S+) is lost: "
        r"|Node failure on (?P<node3>\S+)|job killed: node \d+ \((?P<node4>[^)]+)\)",
        "a node was lost",
        "submit again; leave the node out (Slurm: --exclude) and tell your administrators",
    ),
    Cause(
        "dependency",
        SCHEDULER,
        r"DependencyNeverSatisfied|deleted as result of dependency|depend\w* .*never be satisfied"
        r"|error: job \S+ has (not )?ended well, so this one does not run"
        r"|error: there is no job \S+ below \S+ to wait for",
        "the job it waits for has failed, so it will never start",
        "cancel it, mend the first job, and submit both again; afterany waits for any end",
    ),
    Cause(
        "output-folder",
        SCHEDULER,
        r"JobLaunchFailure|RaisedSignal:53|Could not open stdout file|Unable to copy file",
        "the job's output could not be written, so it was not even started",
        "make the folder of --output (or -o) before you submit; `jobgen submit` does",
    ),
    Cause(
        "not-started",
        SCHEDULER,
        r"too many failed attempts to run|Exit_status -[123]\b"
        r"|launch[ _]failed[ _]requeued[ _]held",
        "the scheduler could not start the job on its nodes",
        "on PBS, see that the folders of -o and -e exist; else tell your administrators: the "
        "daemons' logs on the nodes say why. Release it (scontrol release, qrls), or submit again",
    ),
    Cause(
        "held",
        SCHEDULER,
        r"\bJobHeld(User|Admin)\b|^queued .*\b[Jj]ob held by",
        "the job is held",
        "release it with `scontrol release` or `qrls`; where an administrator holds it, ask them",
    ),
    Cause(
        "cancelled",
        SCHEDULER,
        r"^cancelled\b|ENDED by SIG|job deleted|\*\*\* JOB \d+ ON \S+ CANCELLED",
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
