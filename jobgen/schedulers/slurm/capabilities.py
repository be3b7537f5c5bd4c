"""What jobs can request from Slurm."""

from jobgen.capabilities import JOB_ID, Capabilities, name_options

_OPTIONS = name_options("""
    name                        -J, --job-name
    account                     -A, --account
    queue                       -p, --partition
    qos                         -q, --qos
    reservation                 --reservation
    resources.nodes             -N, --nodes
    launch.processes_per_node   -n, --ntasks, --ntasks-per-node, --tasks-per-node, --ntasks-per-gpu
    resources.gpus_per_node     -G, --gpus, --gpus-per-node, --gpus-per-task, --gres gpu
    resources.cpus_per_node     -c, --cpus-per-task, --cpus-per-gpu
    resources.memory_per_node   --mem, --mem-per-cpu, --mem-per-gpu
    resources.disk_per_node     --tmp
    resources.constraint        -C, --constraint
    resources.exclusive         --exclusive
    resources.walltime          -t, --time
    on_walltime.notice          --signal
    environment.from_shell      --export
    array                       -a, --array
    after                       -d, --dependency
    notify.email                --mail-user
    notify.on                   --mail-type
""")
# The long options of sbatch(1).
_LONG_OPTIONS = (
    "account array batch begin chdir clusters comment constraint container contiguous"
    " core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline"
    " delay-boot dependency distribution error exclude exclusive export export-file"
    " extra-node-info get-user-env gid gpu-bind gpu-freq gpus gpus-per-node"
    " gpus-per-socket gpus-per-task gres gres-flags help hint hold ignore-pbs input"
    " job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind"
    " mem-per-cpu mem-per-gpu mincpus network nice no-kill no-requeue nodefile"
    " nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node"
    " ntasks-per-socket open-mode output overcommit oversubscribe parsable partition"
    " power prefer priority profile propagate qos quiet reboot requeue reservation"
    " segment signal sockets-per-node spread-job switches tasks-per-node test-only"
    " thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid usage"
    " use-min-nodes verbose version wait wait-all-nodes wckey wrap"
)
# Each letter of an option, and the long option that it stands for.
_SHORT_OPTIONS = (
    "J --job-name A --account p --partition q --qos N --nodes n --ntasks c --cpus-per-task"
    " t --time o --output e --error d --dependency D --chdir C --constraint w --nodelist"
    " x --exclude L --licenses M --clusters G --gpus a --array H --hold k --no-kill"
)
CAPABILITIES = Capabilities(
    name="slurm",
    title="Slurm",
    generic_site="slurm-generic",
    launcher="srun",
    job_id=JOB_ID + "()",
    job_id_example="12345 or 12345_7",
    sign="#SBATCH",
    options=_OPTIONS,
    long_options=frozenset(_LONG_OPTIONS.split()),
    short_options=dict(zip(_SHORT_OPTIONS.split()[::2], _SHORT_OPTIONS.split()[1::2], strict=True)),
    needs_shebang=True,
    without_output="fails without a message before Slurm 23.02",
    # squeue, sacct and scancel would take the job's number for that of a job of this cluster.
    refused=dict.fromkeys(
        ("-M", "--cluster", "--clusters", "SBATCH_CLUSTERS", "SLURM_CLUSTERS"),
        "submit on a login node of that cluster",
    ),
    moves=("-D", "--chdir"),
    queue_word="partition",
    queue_list=True,
    one_cpu=True,
    commands=("sbatch", "srun", "scontrol", "scancel"),
    bare_walltime="minutes",
    comments=True,
    task_index="SLURM_ARRAY_TASK_ID",
    node_range=True,
    components=True,
    enters_containers=True,
    gpu_type=True,
    constraint=True,
    disk=True,
    exclusive=True,
    qos=True,
    reservation=True,
    mail=True,
    mails_any_failure=True,
    requeue=True,
    submits_from_job=True,
    notice=65_535,  # sbatch(1), --signal
    lists_accounts=True,
)
