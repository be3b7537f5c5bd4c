"""One thing that was looked at: what came out, and what to do about it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Verdict = Literal["ok", "warn", "fail", "unknown"]


class Check(NamedTuple):
    """`remedy` is empty where there is nothing to do."""

    what: str
    verdict: Verdict
    message: str
    remedy: str = ""


def as_text(checks: list[Check]) -> str:
    """A line for each, and one more for its remedy."""
    width = max(len(check.what) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.verdict:8} {check.what:{width}}  {check.message}")
        if check.remedy:
            lines.append(f"{'':8} {'':{width}}  -> {check.remedy}")
    return "".join(f"{line}\n" for line in lines)


def worst(checks: list[Check]) -> Verdict:
    """The verdict of all together."""
    order: tuple[Verdict, ...] = ("fail", "warn", "unknown", "ok")
    return min((check.verdict for check in checks), key=order.index)
