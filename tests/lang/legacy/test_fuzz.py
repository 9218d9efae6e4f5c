"""Whatever the files hold, what is wrong is said in diagnostics at places that exist, never raised."""

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings, strategies as st

from tests.examples import examples
from tests.lang.legacy.test_ramps import FILES, INSTANCES, QUERY
from tests.system.daemon import ROOT
from walflow.diagnostics import render_all
from walflow.plan import load

PRINTED = [file.read_text("utf-8") for file in (ROOT / "flows" / "legacy").rglob("*.trickle")]
NOISE = st.sampled_from(
    ["", " ", "\n", "\t", ":", "- ", "[", "]", "{", "}", '"', "'", "*a", "&a ", "!!int ", "~", "/", "<<: "]
)
WORDS = st.sampled_from(
    ["define ", "flow ", "deploy flow x;", "pipeline ", "end;", "end", ";", "out/", "with ", "create "]
)
FUZZ = settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@st.composite
def damaged(draw: st.DrawFn, texts: list[str], noise: st.SearchStrategy[str]) -> str:
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 12)))
        text = text[:begin] + draw(noise) + text[end:]
    return text


def check(yaml: str, query: str) -> None:
    Path("flow.yaml").write_bytes(yaml.encode())
    Path("big.trickle").write_bytes(query.encode())
    _, diagnostics = load(["flow.yaml", "big.trickle"])
    for diagnostic in diagnostics:
        if diagnostic.span:
            assert 0 <= diagnostic.span.start <= len(diagnostic.span.source.text)
    assert "\x1b" not in render_all(diagnostics)


@FUZZ
@given(damaged([FILES, INSTANCES], NOISE))
@example("mapping: {/: , //: , /binding/: , /binding//: {a: b}}")
@example("binding: [{id: b, links: {/pipeline///: [/], '': ['']}}]\nmapping: {/binding/b/c: {'': x}}")
@example("<<: [{onramp: []}, 1]")
@example("? a\n: b\n? [1]\n: c")
def test_damaged_yaml(text: str) -> None:
    check(text, QUERY)


@FUZZ
@given(st.text())
@example("\x00")
@example("%YAML 3.0\n---\na: b")
@example("%TAG ! x\n%TAG ! y\n---\na: b")
@example("a: |9\n  x\n")
@example("a: 0x\nb: 0o9\nc: 1_\nd: .inf\ne: .nan\nf: 1e999\ng: -\n")
def test_any_text(text: str) -> None:
    check(text, text)


@FUZZ
@given(damaged([*PRINTED, QUERY], NOISE | WORDS))
@example("end; end")
@example("define operator x from qos::wal end; create operator x; create operator x; select event from x into x;")
def test_damaged_queries(text: str) -> None:
    check(FILES, text)
