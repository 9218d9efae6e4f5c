"""Each name of tremor's works, or `check` says what there is instead; docs/reference/tremor.md says the same."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from walflow import codecs, framing
from walflow.plan import load
from walflow.registry import connectors
from walflow.substitutes import SUBSTITUTES, TREMORS, Kind, substitute

HAS: Mapping[Kind, Collection[str]] = {
    "connector": connectors(),
    "codec": codecs.registered(),
    "preprocessor": framing.preprocessors(),
    "postprocessor": framing.postprocessors(),
}
MISSING = [(kind, name) for kind, names in TREMORS.items() for name in names if name not in HAS[kind]]

FLOW = """
define flow main
flow
  define connector one from {connector}
  with
    codec = "{codec}",
    preprocessors = [{preprocessor}],
    postprocessors = [{postprocessor}],
    config = {{"url": "127.0.0.1:1"}}
  end;
  create connector one;
end;
deploy flow main;
"""


@pytest.mark.parametrize("kind", TREMORS)
def test_every_name_works_or_has_a_substitute(kind: Kind) -> None:
    assert set(TREMORS[kind]) <= set(HAS[kind]) | set(SUBSTITUTES[kind])
    assert set(SUBSTITUTES[kind]) <= set(TREMORS[kind])
    assert len(set(TREMORS[kind])) == len(TREMORS[kind])


def test_tremor_has_37_connectors() -> None:
    assert len(TREMORS["connector"]) == 37


@pytest.mark.parametrize(("kind", "name"), MISSING)
def test_check_says_what_there_is_instead(kind: Kind, name: str, tmp_path: Path) -> None:
    names = {"connector": "tcp_server", "codec": "json", "preprocessor": "", "postprocessor": ""}
    names[kind] = name if kind in ("connector", "codec") else f'"{name}"'
    file = tmp_path / "main.troy"
    file.write_text(FLOW.format(**names))
    _, diagnostics = load([file])
    (found,) = [one for one in diagnostics if one.message.lower().startswith(f"unknown {kind}")]
    assert name in found.message
    hint = substitute(kind, name)
    assert hint is not None
    assert found.hint == hint
    assert hint.startswith("tremor has it; here ")


@pytest.mark.parametrize("codec", ["msgpack", "tremor"])
def test_a_separator_beside_any_byte_is_warned_of(codec: str, tmp_path: Path) -> None:
    names = {"connector": "tcp_server", "codec": codec, "preprocessor": '"separate"', "postprocessor": '"separate"'}
    file = tmp_path / "main.troy"
    file.write_text(FLOW.format(**names))
    _, diagnostics = load([file])
    told = [one.message for one in diagnostics if one.message.startswith("`separate` beside")]
    assert told == [f"`separate` beside {codec}: its bytes may hold the separator"] * 2
