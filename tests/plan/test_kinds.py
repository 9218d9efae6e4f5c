"""A comparison that no event can pass, because the codec makes the member another kind,
is a warning with a line that works."""

import operator
import re
from itertools import product
from pathlib import Path

import pytest

from tests.examples import shared
from walflow.codecs.syslog.names import SEVERITIES
from walflow.diagnostics import render_all
from walflow.plan import load
from walflow.repl import ReplSession

FLOW = """\
define flow main
flow
  define connector in from udp_server with codec = "{codec}", config = {{"url": "127.0.0.1:5514"}} end;
  define connector log from wal with config = {{"path": "state"}} end;
  define connector out from stdio with codec = "json" end;
  define pipeline before
  pipeline
    {before};
  end;
  define pipeline p
  pipeline
    use std::{{array, integer}};
    define script s
    script
      {script}
    end;
    create script s;
    select event from in into s;
    select event from s into out;
    {select};
  end;
  create connector in;
  create connector log;
  create connector out;
  create pipeline before;
  create pipeline p;
  connect /connector/in to /pipeline/before;
  {link}
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/p;
  connect /pipeline/p to /connector/out;
end;
deploy flow main;
"""


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(
    where: str = "",
    *,
    codec: str = "syslog",
    script: str = "event",
    select: str = "",
    before: str = "select event from in into out",
    link: str = "",
) -> str:
    chosen = select or f"select event from in {f'where {where} ' if where else ''}into out"
    text = FLOW.format(codec=codec, script=script, select=chosen, before=before, link=link)
    Path("main.troy").write_text(text, "utf-8")
    assembly, found = load(["main.troy"])
    assert assembly is not None
    return render_all(found)


def test_severity_as_a_number_in_exact_words() -> None:
    assert said("event.severity <= 3") == (
        "main.troy:20:32: warning: codec syslog makes `event.severity` a string, so `<=` with a number always fails\n"
        "   20 |     select event from in where event.severity <= 3 into out;\n"
        "      |                                ^^^^^^^^^^^^^^^^^^^\n"
        '      = write `array::contains(["emerg", "alert", "crit", "err"], event.severity)` with `use std::array;`'
    )


@pytest.mark.parametrize(
    ("where", "expected", "hint"),
    [
        ("event.severity == 3", "string, so `==` with a number is never true", 'write `event.severity == "err"`'),
        ("event.severity != 3", "string, so `!=` with a number is always true", 'write `event.severity != "err"`'),
        ("5 < event.severity", "string, so `<` with a number always fails", '["info", "debug"]'),
        ("event.severity == 9", "string, so `==` with a number is never true", "it is a name: `emerg`"),
        (
            "event.procid > 100",
            "string, so `>` with a number always fails",
            "write `integer::parse(event.procid) > 100`",
        ),
        ('event.timestamp > "2026"', "number, so `>` with a string always fails", "a number has no quotes"),
        ("event.structured_data == 1", "record, so `==` with a number is never true", ""),
        ("event.msg == true", "string, so `==` with a boolean is never true", ""),
        ('event.hostname == "a" and not (event.severity < 3)', "`<` with a number always fails", "alert"),
    ],
)
def test_a_comparison(where: str, expected: str, hint: str) -> None:
    text = said(where)
    assert expected in text
    assert hint in text
    assert text.count("warning: ") == 1


@pytest.mark.parametrize(
    ("codec", "where", "expected"),
    [
        ("csv", "event[2] > 1.5", "codec csv makes `event[2]` a string"),
        ("csv", "event[2] > 1.5", "write `float::parse(event[2]) > 1.5` with `use std::float;`"),
        ("string", "event > 7", "codec string makes `event` a string"),
        ("influx", "event.tags.host == 1", "codec influx makes `event.tags.host` a string"),
        ("statsd", 'event.sample_rate > "1"', "codec statsd makes `event.sample_rate` a number"),
        ("graphite-plaintext", 'event.value == "1"', "codec graphite-plaintext makes `event.value` a number"),
    ],
)
def test_other_codecs(codec: str, where: str, expected: str) -> None:
    assert expected in said(where, codec=codec)


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        ("match event.severity of case 3 => event default => drop end", 'write `"err"`'),
        ("match event of case %{ facility == 4 } => event default => drop end", 'write `"auth"`'),
    ],
)
def test_a_case(script: str, hint: str) -> None:
    text = said(script=script)
    assert "a string, so this case never fits" in text
    assert hint in text


@pytest.mark.parametrize(
    "unknown",
    [
        {"codec": "json"},
        {"before": 'select {"severity": 3} from in into out'},
        {
            "link": 'define connector ticks from metronome with config = {"interval": 1000000000} end; '
            "create connector ticks; connect /connector/ticks to /pipeline/before;"
        },
        {"link": "connect /connector/in/err to /pipeline/before;"},
        {"select": "select event from s into out having event.severity > 3"},
        {"select": 'select {"severity": 1} from in into out having event.severity > 3'},
    ],
)
def test_nothing_is_said_of_what_is_not_known(unknown: dict[str, str]) -> None:
    assert "a string" not in said(**({} if "select" in unknown else {"where": "event.severity > 3"}), **unknown)


@pytest.mark.parametrize(
    "script",
    [
        "let event.severity = 3; match event.severity > 2 of case true => event default => drop end",
        "let event = {}; match event.severity > 2 of case true => event default => drop end",
        'let event["a#{event.msg}"] = 3; match event.severity > 2 of case true => event default => drop end',
    ],
)
def test_nothing_is_said_of_what_a_script_has_changed(script: str) -> None:
    assert said(script=script) == ""


def test_other_members_of_an_event_that_a_script_changes() -> None:
    script = "let event.seen = true; match event.severity > 2 of case true => event default => drop end"
    assert "`>` with a number always fails" in said(script=script)


def test_an_absent_member_may_be_asked_for() -> None:
    assert said("event.msg == null") == ""


@pytest.mark.parametrize(("number", "symbol"), shared([*product(range(8), ("<", "<=", ">", ">=", "==", "!="))]))
def test_the_line_to_write_means_the_same(number: int, symbol: str) -> None:
    compare = {
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "==": operator.eq,
        "!=": operator.ne,
    }
    wanted = [compare[symbol](severity, number) for severity in range(8)]
    text = said(f"event.severity {symbol} {number}")
    if len(set(wanted)) == 1:
        assert "      = it is a name: `emerg`, `alert`, `crit`, `err`, `warning`, `notice`, `info` or `debug`" in text
        return
    found = re.search(r"= write `([^`]*)`", text)
    assert found is not None
    assert said(found[1]) == ""
    session = ReplSession()
    for severity, name in enumerate(SEVERITIES):
        session.feed(f':event {{"severity": "{name}"}}')
        assert session.feed(found[1]).lines == [str(wanted[severity]).lower()]
