"""The command that reports of runs: a part of the command line, printing as it does."""

from __future__ import annotations

import click

from jobgen.cli_target import FILE, completes, json_option, put_out, settle_first


@click.command()
@click.argument(
    "jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completes("runs", "words")
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help="Write the page there; - is stdout. Else it is report.html in the run folder.",
)
@click.option("--text", "as_text", is_flag=True, help="Print it for a terminal; write no page.")
@click.option(
    "--png",
    "picture",
    type=FILE,
    metavar="FILE",
    help="Write the loss curve there, which needs jobgen[report], and no page.",
)
@json_option
def report(
    jobs: tuple[str, ...],
    output: str | None,
    as_text: bool,
    picture: str | None,
    as_json: bool,
) -> None:
    """Tell how a run went, in one HTML page: attempts, loss, speed, ranks, efficiency, cost.

    Several jobs, or the tasks of an array, are compared; their page is comparison.html in the run
    folder of the first. Prints where the page is.
    """
    import os
    import time
    from pathlib import Path

    from jobgen import find, report_of, runs
    from jobgen.plain import to_json

    if as_text and as_json:
        raise click.UsageError("--text and --json exclude each other")
    settle_first()
    found = [find(word) for word in dict.fromkeys(jobs)]
    told = report_of(found)
    if picture:
        from jobgen.report.png import png

        runs.write_atomically(Path(picture), png(told))
    if as_json:
        put_out(to_json(told))
    if as_text:
        from jobgen.report.text import text

        put_out(text(told))
    if output is None and (as_json or as_text or picture):
        return
    from jobgen.report.page import page

    html = page(told, now=time.time())
    if output == "-":
        put_out(html)
        return
    name = "comparison.html" if told.comparison else "report.html"
    file = Path(output) if output else found[0].run_dir / name
    runs.write_atomically(file, html.encode("utf-8", "replace"))
    if not as_text and not as_json:
        put_out(f"{os.path.relpath(file)}\n")


COMMANDS = {"report": report}
