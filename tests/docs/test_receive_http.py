"""docs/howto/receive-http.md names each answer that http_server has, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_of_answers_has_all_of_them() -> None:
    page = (ROOT / "docs/howto/receive-http.md").read_text()
    told = {int(status) for status in re.findall(r"^\| (\d{3}) \|", page, re.MULTILINE)}
    sources = "".join(path.read_text() for path in sorted((ROOT / "connectors/http").glob("*.py")))
    given = {int(status) for status in re.findall(r"Http(?:Refusal|Reply)\(\s*(\d{3})", sources)}
    assert told == given
