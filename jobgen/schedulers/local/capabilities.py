"""What jobs can request from this machine."""

from jobgen.capabilities import Capabilities

CAPABILITIES = Capabilities(
    name="local",
    title="this machine alone",
    generic_site="local",
    launcher="local",
    job_id=r"([0-9]{8}-[0-9]{6}-[0-9]+)(?:_([0-9]+))?()()",
    job_id_example="20300101-120000-42, as jobgen submit prints it",
    batch=False,
)
