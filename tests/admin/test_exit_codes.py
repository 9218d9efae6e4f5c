"""The page of exit codes has those of the code. That each is given is in tests/system/test_service.py."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_has_every_code_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    told = {(name, int(code)) for code, name in re.findall(r"^\| (\d+) \| `(EX_\w+)`", page, re.MULTILINE)}
    defined = re.compile(r"^(EX_\w+)(?:: Final)? = (\d+)$", re.MULTILINE)
    files = {file.name: defined.findall(file.read_text()) for file in (ROOT / "walflow").rglob("*.py")}
    assert [file for file, codes in files.items() if codes] == ["exit_codes.py"]
    assert told == {(name, int(code)) for name, code in files["exit_codes.py"]}
