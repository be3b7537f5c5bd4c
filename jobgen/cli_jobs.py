"""Commands about jobs that were submitted: a part of the command line, printing as it does."""

from __future__ import annotations

import click

from jobgen.cli_target import completes, json_option, put_out


@click.command()
@click.argument("job", shell_complete=completes("runs", "ids"))
@json_option
def diagnose(job: str, as_json: bool) -> None:
    """Say what went wrong with a job first: which rank, why, what shows it, and what to do."""
    from jobgen import runs, status
    from jobgen.diagnose import diagnose as find_cause
    from jobgen.plain import to_json

    found = runs.find(job)
    cause = find_cause(found, status.state(found))
    put_out(to_json(cause) if as_json else cause.as_text())


COMMANDS = {"diagnose": diagnose}
