"""What jobs can ask of Slurm."""

import re

from jobgen.capabilities import JOB_ID, Capabilities, name_options

_OPTIONS = name_options("""
    name                        -J, --job-name
    account                     -A, --account
    queue                       -p, --partition
    qos                         -q, --qos
    reservation                 --reservation
    resources.nodes             -N, --nodes
    launch.processes_per_node   --ntasks-per-node
    resources.gpus_per_node     -G, --gpus, --gpus-per-node, --gpus-per-task, --gres gpu
    resources.cpus_per_node     -c, --cpus-per-task
    resources.memory_per_node   --mem, --mem-per-cpu, --mem-per-gpu
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
CAPABILITIES = Capabilities(
    name="slurm",
    title="Slurm",
    generic_site="slurm-generic",
    launcher="srun",
    job_id=JOB_ID + "()",
    job_id_example="12345 or 12345_7",
    sign="#SBATCH",
    options=_OPTIONS,
    short_options=dict(
        re.findall(
            r"(\w) (--[\w-]+)",
            "J --job-name A --account p --partition q --qos N --nodes n --ntasks c --cpus-per-task"
            " t --time o --output e --error d --dependency D --chdir C --constraint w --nodelist"
            " x --exclude L --licenses M --clusters G --gpus a --array H --hold k --no-kill",
        )
    ),
    needs_shebang=True,
    without_output="fails without a word",
    # squeue, sacct and scancel would take the job's number for that of a job of this cluster.
    refused=dict.fromkeys(
        ("-M", "--clusters", "SBATCH_CLUSTERS", "SLURM_CLUSTERS"),
        "submit on a login node of that cluster",
    ),
    queue_word="partition",
    queue_list=True,
    one_cpu=True,
    commands=("sbatch", "srun", "scontrol", "scancel"),
    bare_walltime="minutes",
    comments=True,
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
