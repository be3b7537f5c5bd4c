"""The commands that look at the machine they run on: `jobgen doctor`."""

from __future__ import annotations

from typing import Any

import click

from jobgen.cli_target import FILE, json_option, plan_of, put_out, target_options
from jobgen.errors import FaultsFoundError, UsageError


@click.command()
@click.argument("path", required=False, type=FILE, metavar="[SPEC]")
@json_option
@target_options
def doctor(path: str | None, as_json: bool, **target: Any) -> None:
    """Check that this machine can submit jobs; with a spec, also its queue, account and paths.

    Takes a few seconds at most. Exit 8 if something would make jobs fail.
    """
    from jobgen.doctor import examine
    from jobgen.plain import to_json
    from jobgen.verdict import as_text, worst

    plan, site = None, None
    if path is not None:
        loaded, plan = plan_of(path, target)
        site = target["site"] or loaded.spec.site
    elif any(target.values()):
        raise UsageError("--scheduler, --site, --set and --no-limits are for a spec; name one")
    checks = examine(plan, site)
    if as_json:
        put_out(to_json({"verdict": worst(checks), "checks": checks}))
    else:
        put_out(as_text(checks))
    if failed := [check.what for check in checks if check.verdict == "fail"]:
        raise FaultsFoundError(f"not ready: {', '.join(failed)}")


COMMANDS = {"doctor": doctor}
