"""Flows that feed themselves. A graph is written as its links:
`connector/port -> pipeline`, connectors by capitals."""

from itertools import pairwise
from pathlib import Path

import pytest

from connectors.memory import Memory
from tests.lang.world import REGISTRY
from walflow.diagnostics import render
from walflow.plan import Assembly, load

KINDS = {
    "L": 'from wal with config = {"path": "%s"} end',
    "M": 'from memory with config = {"max_elements": 10} end',
    "T": 'from tcp_server with codec = "json", config = {"url": "127.0.0.1:1"} end',
    "K": 'from file with codec = "json", config = {"path": "%s", "mode": "append"} end',
}
PIPELINES = {
    "w": "define operator log from qos::wal with max_elements = 9 end; create operator log;"
    " select event from in into log; select event from log into out;",
    "s": "select event from in into out; select event from in2 into out2;",  # separate ways
    "e": "select event from in into err;",
    "c": "select event.a from in where event.b into out;",  # rejects
}


def flow(*chains: str) -> str:
    """A name begins with what it is."""
    names: dict[str, None] = {}
    links: list[str] = []
    for chain in chains:
        ends = [part.strip().split("/") for part in chain.split("->")]
        names |= {name: None for name, *_ in ends}
        links += [
            f"connect {_end(*source[:2], default='out')} to {_end(*target[:2])};" for source, target in pairwise(ends)
        ]
    made: list[str] = []
    for name in names:
        if name[0].isupper():
            settings = KINDS[name[0]]
            settings = settings % name if "%s" in settings else settings
            made.append(f"define connector {name} {settings}; create connector {name};")
        else:
            body = PIPELINES.get(name[0], "select event from in into out;")
            made.append(
                f"define pipeline {name} from in, in2 into out, out2, err pipeline {body} end; "
                f"create pipeline {name};"
            )
    return "\n".join(["define flow main flow", *made, *links, "end; deploy flow main;"])


def _end(name: str, port: str = "", *, default: str = "") -> str:
    kind = "connector" if name[0].isupper() else "pipeline"
    return f"/{kind}/{name}/{port or default}".rstrip("/")


def loaded(text: str, *, allow_cycles: bool = False) -> tuple[Assembly | None, list[str]]:
    Path("main.troy").write_text(text, encoding="utf-8")
    assembly, found = load(["main.troy"], {**REGISTRY, "memory": Memory}, allow_cycles=allow_cycles)
    return assembly, [render(one) for one in found if one.severity == "error"]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


LOOPS = [
    (["T -> before -> L -> after -> K", "after -> before"], "before -> L -> after"),
    (["T -> p -> M -> p2 -> M"], "M -> p2"),
    (["T -> p -> L -> q -> L2 -> r -> p"], "p -> L -> q -> L2 -> r"),
    (["T -> wal -> x -> wal"], "wal -> wal/log -> wal -> x"),
    (["T -> p -> L -> s1/in2", "s1/out2 -> p"], "p -> L -> s1"),
    (["T -> p -> L -> e1", "e1/err -> p"], "p -> L -> e1"),  # selected into `err` it is an event like any other
]

NONE = [
    ["T -> before -> L -> after -> K", "after -> T"],  # the echo
    ["T -> before -> L -> after -> K", "L/err -> after"],
    ["T -> before -> L -> after -> K", "L/err -> before"],  # an error that is rejected is not sent round
    ["T -> before -> L -> after -> K", "K/err -> before"],
    ["T -> p -> L -> c1 -> K", "c1/err -> p"],
    ["T -> p -> L -> s1 -> K", "s1/out2 -> p"],  # nothing leads from its `in` to its `out2`
    ["T -> s1 -> q -> s1/in2", "s1/out2 -> K"],  # twice through one pipeline, by other ways
    ["T -> p -> K", "p -> L -> q -> K2", "T/err -> q"],
]


@pytest.mark.parametrize(("chains", "drawn"), LOOPS)
def test_a_loop_is_an_error_that_draws_it(chains: list[str], drawn: str) -> None:
    assembly, (said,) = loaded(flow(*chains))
    assert assembly is None
    lines = said.splitlines()
    assert lines[0].startswith("main.troy:")
    assert "error: this flow feeds itself: what leaves the log" in lines[0]
    assert "connect " in lines[1]
    assert lines[3:] == [
        f"      = ┌─> {drawn} ─┐",
        f"      = └{'─' * (len(drawn) + 5)}┘",
        "      = where this is meant: `--allow-cycles`",
    ]


@pytest.mark.parametrize("chains", [chains for chains, _ in LOOPS])
def test_it_may_be_meant(chains: list[str]) -> None:
    assembly, said = loaded(flow(*chains), allow_cycles=True)
    assert assembly is not None, said


@pytest.mark.parametrize("chains", NONE)
def test_what_is_none(chains: list[str]) -> None:
    assembly, said = loaded(flow(*chains))
    assert assembly is not None, said


def test_each_loop_is_named_and_one_knot_once() -> None:
    _, said = loaded(flow("T -> p -> L -> q -> p", "L -> r -> p", "T -> x -> M -> y -> x"))
    assert len(said) == 2


@pytest.mark.parametrize("chains", [["T -> a -> b -> c -> a"], ["T -> c1 -> K", "c1/err -> b -> c1"]])
def test_pipelines_alone_never_may(chains: list[str]) -> None:
    for allowed in (True, False):
        _, said = loaded(flow(*chains), allow_cycles=allowed)
        assert len(said) == 1
        assert "error: these pipelines are linked in a circle: " in said[0]


@pytest.mark.test
def test_a_loop_of_a_thousand_is_drawn_short() -> None:
    chain = " -> ".join(f"p{number}" for number in range(1000))
    _, (said,) = loaded(flow(f"T -> {chain} -> L -> p0"))
    assert "      = ┌─> p0 -> p1 -> p2 -> … 995 more … -> p998 -> p999 -> L ─┐" in said.splitlines()
