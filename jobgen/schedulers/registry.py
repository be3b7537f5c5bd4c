"""The schedulers that jobgen knows: the package of each, in the order in which lists show them.

Each package has a `capabilities` module with CAPABILITIES and a `scheduler` module with SCHEDULER.
This module and those with the capabilities import no other room: every room may ask them.
"""

# How the names of job scripts end.
SCRIPT_ENDS = (".sbatch", ".slurm", ".pbs", ".sh", ".job", ".bash")
PACKAGES = {name: f"jobgen.schedulers.{name}" for name in ("slurm", "pbs", "local")}
