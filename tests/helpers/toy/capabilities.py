"""What jobs can ask of Toy."""

from jobgen.capabilities import JOB_ID, Capabilities, name_options

CAPABILITIES = Capabilities(
    name="toy",
    title="Toy",
    generic_site="toy-generic",
    launcher="toyrun",
    job_id=JOB_ID + "()",
    job_id_example="12345",
    sign="#TOY",
    options=name_options("name  --called\nqueue  --line"),
    commands=("toysub", "toyq", "toykill"),
    bare_walltime="minutes",
)
