"""The page of exit codes has those of the code. That each is given is in tests/system/test_service.py."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_has_every_code_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    told = {(name, int(code)) for code, name in re.findall(r"^\| (\d+) \| `(EX_\w+)`", page, re.MULTILINE)}
    defined = re.compile(r"^(EX_\w+)(?:: Final)? = (\d+)$", re.MULTILINE)
    files = (ROOT / "walflow").rglob("*.py")
    used = {(name, int(code)) for file in files for name, code in defined.findall(file.read_text())}
    assert told == used
