"""The pages about dead letter files and about letters, typed as they stand."""

import sys
from pathlib import Path

import pytest

from tests.docs.test_tutorial import DOCS, MARK, STEPS, typed
from tests.system.daemon import free_port


@pytest.mark.nightly
@pytest.mark.parametrize("page", ["dead-letters", "letters"])
def test_the_page(page: str, tmp_path: Path) -> None:
    steps = STEPS.findall((DOCS / f"howto/{page}.md").read_text("utf-8"))
    program = tmp_path / "walflow"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m walflow "$@"\n')
    program.chmod(0o755)
    script = "set -e\n" + f"\necho '{MARK}'\n".join(command for command, _ in steps)
    script = script.replace("65535", str(free_port())).replace("run main.troy", "run --log-format json main.troy")
    printed = typed(script, tmp_path)
    for (command, wanted), got in zip(steps, printed.split(f"{MARK}\n"), strict=True):
        assert got == wanted, command
