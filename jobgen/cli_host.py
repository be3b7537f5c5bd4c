"""`--host`: a command that runs on another machine, where the jobs and their records are."""

from __future__ import annotations

from typing import Any

import click


class OnHost(click.Command):
    """A command with --host. What else is on its line is checked here, and runs there."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.params.append(
            click.Option(
                ["--host"],
                metavar="HOST[:FOLDER]",
                help="Do it there, by ssh, in FOLDER (from home; else named as this one).",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As ever; what was given is kept, but for --host."""
        words = iter(list(args))
        kept: list[str] = []
        for word in words:
            if word == "--host":
                next(words, None)
            elif not word.startswith("--host="):
                kept.append(word)
        ctx.meta["words"] = kept
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Here, or there."""
        host = ctx.params.pop("host")
        if host is None:
            return super().invoke(ctx)
        from jobgen.remote import Host, files_of

        there = Host(host)
        if self.name == "submit":
            there.send(files_of(ctx.params["path"], ctx.params["overrides"]))
        return there.jobgen([str(self.name), *ctx.meta["words"]])
