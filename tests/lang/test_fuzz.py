"""Whatever the text, what comes back is an assembly or an error, never anything raised."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings, strategies as st

from tests.examples import examples
from tests.lang.world import REGISTRY
from walflow.diagnostics import Source, has_errors, render_all
from walflow.lang.scan import scan
from walflow.plan import load

SEED = (Path(__file__).parent / "seeds" / "000.troy").read_text(encoding="utf-8")
TOKENS = [str(token) for token in scan(Source("000.troy", SEED))]
STRANGE = [
    *(
        "match",
        "case",
        "of",
        "patch",
        "end",
        "for",
        "merge",
        "default",
        "with",
        "window",
        "define connector",
        "args",
        "args.x",
        "event",
        "$",
        "select event from in into out",
        "script",
    ),
    *(
        "where",
        "present event.a",
        "absent",
        "$x",
        "create stream x",
        "from x",
        "into x",
        "event[event.a]",
        "and",
        "==",
    ),
    *(";", '"', "#{", "{", "}", "[", "]", "(", ")", '"""\n', "::", "/", "=", "=>", ":", "~", "|a|", "<<", ">>", "-"),
    *(
        "#!config",
        "use a",
        "use tremor::{a, b}",
        "deploy flow x",
        "fn",
        "const",
        "const a = b;",
        "const b = [a];",
        "having",
        "`",
        "é",
        "\0",
        "\\",
        "1e999",
        "0x",
    ),
]

fuzzed = settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def holds(text: str) -> None:
    Path("main.troy").write_text(text, encoding="utf-8", newline="")
    assembly, diagnostics = load(["main.troy"], REGISTRY)
    assert (assembly is None) == has_errors(diagnostics)
    render_all(diagnostics)


@fuzzed
@given(st.text())
def test_any_text(text: str) -> None:
    holds(text)


@fuzzed
@given(st.lists(st.sampled_from([*sorted(set(TOKENS)), *STRANGE]), max_size=60))
def test_any_tokens(tokens: list[str]) -> None:
    holds(" ".join(tokens))


@fuzzed
@given(
    st.lists(
        st.tuples(st.integers(0, len(TOKENS) - 1), st.integers(0, 4), st.sampled_from([*TOKENS, *STRANGE, ""])),
        min_size=1,
        max_size=6,
    )
)
def test_the_seed_with_tokens_lost_and_found(changes: list[tuple[int, int, str]]) -> None:
    tokens = list(TOKENS)
    for at, lost, found in changes:
        tokens[at : at + lost] = [found]
    holds(" ".join(tokens))


@fuzzed
@given(st.integers(0, len(SEED)), st.integers(0, 8), st.text(max_size=4))
def test_the_seed_with_characters_lost_and_found(at: int, lost: int, found: str) -> None:
    holds(SEED[:at] + found + SEED[at + lost :])


@fuzzed
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    Path("main.troy").write_bytes(data)
    assembly, diagnostics = load(["main.troy"], REGISTRY)
    assert (assembly is None) == has_errors(diagnostics)
