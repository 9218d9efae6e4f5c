"""`walflow connectors`: what the classes say of themselves."""

import json

import pytest
from typer.testing import CliRunner, Result

from walflow.cli import app
from walflow.cli.examples import guarantees
from walflow.registry import connectors


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app(), ["connectors", *arguments], env={"COLUMNS": "200"})


def test_list_has_every_registered_type() -> None:
    result = run("list")
    assert result.exit_code == 0
    for kind in connectors():
        assert kind in result.output
    assert json.loads(run("list", "--json").output).keys() == set(connectors())


def test_show_names_every_key_with_type_and_default() -> None:
    output = run("show", "wal").output
    assert output.splitlines()[0].startswith("wal: A log on disk between a source and its sinks")
    assert "codec: forbidden" in output
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.split()}
    assert rows["path"][1:3] == ["string", "required"]
    assert rows["chunk_size"][1:3] == ["integer", str(64 << 20)]


def test_nested_keys_are_shown_with_where_they_lie() -> None:
    output = run("show", "tcp_client").output
    assert "tls.cafile" in output
    assert '"written" or "echo"' in output
    assert "entries[].expr" in run("show", "crononome").output


def test_as_json_it_is_the_schema() -> None:
    document = json.loads(run("show", "file", "--json").output)
    assert document["config"]["required"] == ["path", "mode"]
    assert document["ports"] == {"in": ["in"], "out": ["out", "err"]}


def test_every_field_of_ours_is_described() -> None:
    for kind, connector in connectors().items():
        for name, field in connector.model_fields.items():
            assert field.description, f"{kind}.{name}"


def test_show_says_what_is_guaranteed() -> None:
    assert "sink: an event is acked after its bytes were written to the log and fdatasync returned" in " ".join(
        run("show", "wal").output.split()
    )
    assert 'source (mode = "read"): ' in run("show", "file").output
    shown = json.loads(run("show", "file", "--json").output)["guarantee"]
    assert [one["where"] for one in shown][:3] == [
        'mode = "read"',
        'mode = "read", follow = true',
        'mode = "write"',
    ]


def test_each_of_ours_says_what_it_guarantees() -> None:
    for kind, connector in connectors().items():
        assert any(promised.source or promised.sink for _, promised in guarantees(connector)), kind


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("tcp_servr", "did you mean `tcp_server`?"),
        ("kafka", "there is `kafka_consumer` as a source, `kafka_producer` as a sink"),
        (
            "elasticsearch",
            "there is `http_client` to `/INDEX/_doc`, an event a request; the bulk interface comes later",
        ),
        ("nothing_like_it", "`walflow connectors list` names them all"),
    ],
)
def test_an_unknown_type_is_one_line_with_a_suggestion(kind: str, hint: str) -> None:
    result = run("show", kind)
    assert result.exit_code == 78
    assert result.output == f"unknown connector type `{kind}`: {hint}\n"
