"""Resources that only one connector or operator may use, for example a directory."""

import os
from collections.abc import Sequence
from typing import Final

from walflow.contract import Claim
from walflow.diagnostics import Report, Span, error

TWICE: Final = "one flow, deployed twice: give each its own, by an arg of the flow"
INSTANCES: Final = (
    "each mapping has its own instance: let all link one, with a fixed name in the place of `{instance}`"
)


class Claims:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._owners: dict[tuple[str, str], tuple[str, Span]] = {}

    def add(self, claims: Sequence[Claim], who: str, created: Span) -> None:
        for claim in claims:
            key = claim.what, _real(claim.path)
            if key not in self._owners:
                self._owners[key] = who, created
                continue
            other, span = self._owners[key]
            hint = f"the other one is created at {span}"
            if span == created:
                hint = TWICE if created.source.name.endswith(".troy") else INSTANCES
            self._report(error(f"{who} and {other} have the same {claim.what} `{claim.path}`", created, hint))


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # no file has a name like this
        return path
