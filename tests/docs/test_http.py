"""The tables of the pages of http_server and http_client have what the code answers and tells, and nothing else."""

import re
from pathlib import Path

from connectors.http.client_run import AWAY, TOO_MUCH
from tests.connectors.test_http_replies import answering

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference" / "connectors"
PAGE = "".join((PAGES / f"{name}.md").read_text("utf-8") for name in ("http_server", "http_client"))


def statuses(section: str) -> list[str]:
    _, _, rest = PAGE.partition(f"## {section}\n")
    return re.findall(r"^\| (\d[^|]*?) \|", rest.partition("\n## ")[0], re.MULTILINE)


def test_every_answer_of_the_server_is_there() -> None:
    code = "".join(file.read_text("utf-8") for file in (ROOT / "connectors" / "http").glob("*.py"))
    given = set(re.findall(r"(?:HttpRefusal|HttpReply)\(\s*(\d{3})", code))
    assert set(statuses("Answers of http_server")) == given | {"202", "500"}  # as `answer` says; a bug


def test_what_the_client_tries_again_and_what_it_divides() -> None:
    again, divided = statuses("Answers that http_client gets")[1:3]
    assert {int(one) for one in re.findall(r"\b\d{3}\b", again)} == AWAY
    assert {int(one) for one in re.findall(r"\b\d{3}\b", divided)} == TOO_MUCH


async def test_the_metadata_is_that_of_an_event() -> None:
    async with answering() as server, server.client() as client:
        client.send(b"1", {"X-Tag": "a"}, path="/orders/1?a=b")
        meta = (await server.came())[0].meta
    table = PAGE.partition("\n## Metadata\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `\$([\w.]+)` \| (\w+) \|", table, re.MULTILINE)
    assert {name: type_of(value) for name, value in leaves(meta)} == dict(told)


def leaves(value: object, name: str = "") -> list[tuple[str, object]]:
    if not isinstance(value, dict) or name == "request.headers":
        return [(name, value)]
    return [leaf for key, one in value.items() for leaf in leaves(one, f"{name}.{key}".strip("."))]


def type_of(value: object) -> str:
    return {str: "string", bool: "bool", int: "integer", dict: "record"}[type(value)]
