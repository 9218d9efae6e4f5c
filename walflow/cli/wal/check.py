"""`walflow wal check`."""

import json
import shlex
from typing import TYPE_CHECKING

import typer

from walflow.admin.text import printable
from walflow.cli.wal.terminal import AsJson, At, progress, told
from walflow.exit_codes import EX_FINDINGS

if TYPE_CHECKING:
    from walflow.wal.tools.inspect import Finding, View


def check(path: At, as_json: AsJson = False) -> None:
    """Verify every header and record, and list each damaged one. Changes nothing and takes no lock.

    A record that a crash left half written is shown, but it is no damage, because it was never acked. A record whose
    loss is already reported in quarantine/ is no damage either.

    Exit codes: 0 sound, 1 damaged, 74 not a log or not readable.
    """
    from walflow.wal.tools.inspect import check as verify

    with told():
        with progress("reading") as begin:
            view, findings = verify(str(path), begin)
        if as_json:
            typer.echo(json.dumps(_check_document(view, findings), indent=2))
        else:
            typer.echo("\n".join(_check_lines(view, findings)))
    if _damages(findings):
        raise typer.Exit(EX_FINDINGS)


def _damages(findings: "list[Finding]") -> "list[Finding]":
    return [finding for finding in findings if finding.damage]


def _check_document(view: "View", findings: "list[Finding]") -> dict[str, object]:
    return {
        "path": view.directory.path,
        "uuid": view.found.uuid.hex(),
        "held_by": view.holder or None,
        "sound": not _damages(findings),
        "findings": [finding._asdict() for finding in findings],
    }


def _check_lines(view: "View", findings: "list[Finding]") -> list[str]:
    lines = [printable(str(finding)) for finding in findings]
    if view.holder:
        lines.append(f"in use by {view.holder}: records that it is writing now are left out")
    count = len(_damages(findings))
    size = sum(chunk.synced for chunk in view.chunks)
    what = f"{count} damaged" if count else "sound"
    chunks = f"{len(view.chunks)} {'chunk' if len(view.chunks) == 1 else 'chunks'}"
    lines.append(f"{what}: {chunks}, {size} bytes read")
    if count:
        path = shlex.quote(view.directory.path)
        lines.append(
            "the log still opens, and reports lost events when it reaches them; to report them now: "
            f"walflow wal repair {path}"
        )
    return lines
