"""What `check` prints of a flow against what lives of that flow show: random flows, killed at random moments.

`python -m tests.words.test_words 500` looks for longer, and prints the first flow of which `check` says too much.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from connectors.file import File
from tests.words.graphs import Graph, random_graph, two_logs
from tests.words.lives import REGISTRY, Lives
from walflow.cli.findings import document
from walflow.cli.promises import promises
from walflow.diagnostics import render_all
from walflow.plan import Assembly, load

pytestmark = pytest.mark.test

ONCE = "none comes twice"  # by these words of a sink's guarantee its repeats are looked for
LIVES = 4  # that are killed, before the one that is not


class TooMuch(AssertionError):
    """What `check` said is not so."""


def tried(graph: Graph, seed: int) -> None:
    """Raises TooMuch."""
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        flow = directory / "flow.troy"
        flow.write_text(graph.text())
        assembly, found = load([flow], REGISTRY)
        if assembly is None:  # what would go round without end is not run
            said = render_all(found)
            assert "this flow feeds itself" in said, said
            return
        lives = Lives(assembly, directory)
        dice = Random(seed)
        for _ in range(LIVES):
            lives.live(dice.getrandbits(32))
        quiet = lives.live(dice.getrandbits(32), last=True)
        if not quiet:
            raise TooMuch("check found no loop, and events go round")
        _look_for_repeats(assembly, lives)
        _look_for_losses(graph, lives)


def _look_for_repeats(assembly: Assembly, lives: Lives) -> None:
    said: dict[str, list[bool]] = {}
    for path in document([], promises(assembly))["paths"]:  # type: ignore[attr-defined]
        sentence = path["sink"]["guarantee"]
        if ONCE in sentence:
            name = path["sink"]["connector"].split("::")[1]
            said.setdefault(name, []).append(not path["may_come_twice"])
    for file, once in said.items():
        twice = [n for n, times in lives.lines(file).items() if times > 1]
        if all(once) and len(once) == 1 and twice:
            raise TooMuch(f"{file}: none comes twice, and these did: {twice[:10]}")


# ---- what is never lost


def _look_for_losses(graph: Graph, lives: Lives) -> None:
    onward: dict[tuple[str, str], list[str]] = {}
    for source, port, target in graph.links:
        onward.setdefault((source, port), []).append(target)
    had = {name: lives.had(name) for name, kind in graph.kinds.items() if kind in ("file", "moody")}
    for feed in [name for name, kind in graph.kinds.items() if kind == "feed"]:
        for n in sorted(lives.acked(feed)):
            for wanted in _demands(feed, n, graph.kinds, onward):
                if wanted and not any(n in had[sink] for sink in wanted):
                    raise TooMuch(f"{n} of {feed} was acked, and is in none of {sorted(wanted)}")


def _demands(
    node: str, n: int, kinds: Mapping[str, str], onward: Mapping[tuple[str, str], Sequence[str]]
) -> list[set[str]]:
    """Sets of sinks of which one at least must have the event. Memory may lose it, and a filter takes it."""
    kind = kinds[node]
    if kind in ("file", "moody"):
        return [{node}]
    if kind in ("memory", "buffer", "count") or (kind == "even" and n % 2) or (kind == "odd" and n % 3):
        return []
    ways = [
        [demand for target in onward.get((node, port), ()) for demand in _demands(target, n, kinds, onward)]
        for port in (("out", "out2") if kind == "turns" else ("out",))
    ]
    if kind == "turns":
        return [set().union(*ways[0], *ways[1])] if all(ways) else []
    return ways[0]


# ---- tests


@pytest.mark.nightly
@settings(max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)
@given(strategies.integers(0, 2**32))
def test_what_is_said_is_so(seed: int) -> None:
    tried(random_graph(Random(seed)), seed)


def test_an_appended_file_says_the_words_by_which_repeats_are_looked_for() -> None:
    """Another wording would end the search in silence."""
    assert ONCE in File(path="out", mode="append").guarantee(behind_log=True).sink


@pytest.mark.parametrize("between", ["pass", "count"])
def test_what_is_said_of_a_log_behind_a_log_is_so(between: str) -> None:
    for seed in range(3):
        tried(two_logs(between), seed)


@pytest.mark.nightly
def test_without_that_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that was reported: `check` promised none twice behind two logs."""
    monkeypatch.setattr("walflow.cli.promises._repeats", lambda path, logs, words, graph: [])
    found = [str(raised) for seed in range(20) if (raised := _raised(two_logs("count"), seed))]
    assert any("none comes twice, and these did" in one for one in found)


def _raised(graph: Graph, seed: int) -> TooMuch | None:
    try:
        tried(graph, seed)
    except TooMuch as raised:
        return raised
    return None


def main(times: int) -> None:
    for seed in range(times):
        try:
            tried(random_graph(Random(seed)), seed)
        except BaseException:
            sys.stdout.write(f"{random_graph(Random(seed)).text()}\nseed {seed}\n")
            raise
    sys.stdout.write(f"{times} flows, {times * (LIVES + 1)} lives: nothing said too much\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
