"""What jobs can request from PBS."""

from jobgen.capabilities import JOB_ID, Capabilities, name_options

_OPTIONS = name_options("""
    name                        -N
    account                     -A
    queue                       -q
    resources.nodes             -l select, -l nodes, -l procs, -l size, -l mppwidth, -l place
    resources.gpus_per_node     -l ngpus, -l gpus
    resources.cpus_per_node     -l ncpus
    resources.memory_per_node   -l mem
    resources.walltime          -l walltime
    environment.from_shell      -v
    array                       -J
    after                       -W depend
    notify.email                -M
    notify.on                   -m
""")
CAPABILITIES = Capabilities(
    name="pbs",
    chunks=True,
    title="PBS",
    generic_site="pbs-generic",
    launcher="pbsdsh",
    job_id=JOB_ID + r"(\.[A-Za-z0-9.-]+)?",
    job_id_example="12345.server or 12345[7].server",
    bracketed_tasks=True,
    sign="#PBS",
    options=_OPTIONS,
    indented=True,
    without_output="loses its output",
    shell_option="-S",
    commands=("qsub", "qstat", "qdel"),
    bare_walltime="seconds",
    task_index="PBS_ARRAY_INDEX",
    index_of_script=True,
    starts_at_home=True,
    own_path=True,
    deletes_waiting=True,
    exclusive=True,
    reservation=True,
    reservation_queue=True,
    mail=True,
)
