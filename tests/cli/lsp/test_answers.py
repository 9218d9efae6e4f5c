"""What the language server answers, without a server: a `|` in a text is the cursor."""

from pathlib import Path

import pytest

from walflow.cli.lsp.complete import complete
from walflow.cli.lsp.edited import EditedText
from walflow.cli.lsp.examine import LARGEST, Examined, examine
from walflow.cli.lsp.goto import definition
from walflow.cli.lsp.hover import hover
from walflow.diagnostics import Source
from walflow.lang.files import ALL_SAVED
from walflow.plan import load

ROOT = Path(__file__).parents[3]

FLOW = """\
define flow main
flow
  use std::string;

  ## Where events come from.
  define connector door from tcp_server
  with
    codec = "json",
    config = {"url": "127.0.0.1:1", "tls": {"cert": "c", "key": "k"}}
  end;
  define connector out from file
  with
    codec = "json",
    config = {"path": "o", "mode": "append"}
  end;
  define pipeline shout
  pipeline
    define window minute from tumbling with interval = 60000000000 end;
    define operator once from qos::dedupe with key = "k" end;
    create operator once;
    fn twice(x) with x + x end;
    select string::uppercase(aggr::win::last(event.a)) from in[minute] into once;
    select twice(event) from once into out;
  end;
  create connector door;
  create connector sink from out;
  create pipeline shout;
  connect /connector/door to /pipeline/shout;
  connect /pipeline/shout to /connector/sink;
end;
deploy flow main;
"""


def edited(text: str, path: Path = ROOT / "a.troy") -> EditedText:
    return EditedText(Source(str(path), text), ALL_SAVED)


def at(before: str, within: str = FLOW) -> int:
    """The middle of the last word of `before`."""
    assert before in within, before
    return within.index(before) + len(before) - 1


def hovered(before: str, text: str = FLOW, promised: dict[str, list[str]] | None = None) -> str:
    found = hover(edited(text), at(before, text), promised or {})
    return found.markdown if found else ""


def labels(text: str) -> list[str]:
    offset = text.index("|")
    return [one.label for one in complete(edited(text.replace("|", "", 1)), offset)]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("out from file", "As a sink"),
        ("from tcp_server", "| `url` |"),
        ('"url', "**url**: string"),
        ('"tls": {"cert', "**tls.cert**"),
        ('"mode', '"append"'),
        ("codec", "How the bytes of one event become a value"),
        ('codec = "json', "**json** (codec)"),
        ("from qos::dedupe", "**qos::dedupe** (operator)"),
        ("with key", "**key**: "),
        ("use std::string", "**std::string**"),
        ("string::uppercase", "uppercase(text: string) -> string"),
        ("select twice", "fn twice(x) with x + x end;"),
        ("define connector door", "Where events come from."),
    ],
)
def test_hover(before: str, words: str) -> None:
    assert words in hovered(before)


@pytest.mark.parametrize("before", ["/connector/door", "create connector door"])
def test_a_node_says_what_it_guarantees(before: str) -> None:
    assert "- acked when asked" in hovered(before, promised={"connector/door": ["acked when asked"]})


def test_what_is_promised_is_what_check_says() -> None:
    path = ROOT / "flows/echo/server.troy"
    examined = examine(Source(str(path), path.read_text()), ALL_SAVED)
    assert examined.found == []
    assert any("fdatasync" in words for words in examined.promised["connector/wal"])


@pytest.mark.parametrize("before", ["define flow main", "event", "60000000000", "with\n    codec =", "with x + x"])
def test_hover_over_what_needs_no_words(before: str) -> None:
    assert "**" not in hovered(before)


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("/connector/door", "define connector door from tcp_server"),
        ("to /connector/sink", "define connector out from file"),
        ("create connector sink from out", "define connector out from file"),
        ("to /pipeline/shout", "define pipeline shout"),
        ("in[minute", "define window minute from tumbling"),
        ("into once", "define operator once from qos::dedupe"),
        ("from once", "define operator once from qos::dedupe"),
        ("select twice", "fn twice(x)"),
        ("deploy flow main", "define flow main"),
    ],
)
def test_go_to_definition(before: str, line: str) -> None:
    span = definition(edited(FLOW), at(before))
    assert span is not None
    assert span.source.line(span.source.position(span.start).line).strip().startswith(line)


@pytest.mark.parametrize("before", ["string::uppercase", "use std::string", "from tcp_server", "event"])
def test_go_to_definition_in_another_file(before: str) -> None:
    span = definition(edited(FLOW), at(before))
    if before in {"from tcp_server", "event"}:
        assert span is None
    else:
        assert span is not None
        assert Path(span.source.name).name == "string.tremor"
        assert span.text in {"", "uppercase"}


def test_a_module_of_ones_own_is_read_as_the_editor_has_it(tmp_path: Path) -> None:
    (tmp_path / "mine.tremor").write_text("fn old(x) with x end;\n")
    text = "use mine;\ndefine pipeline p pipeline select mine::fresh(event) from in into out end;\n"
    unsaved = {str(tmp_path / "mine.tremor"): "## Newer.\nfn fresh(x) with x end;\n"}
    source = Source(str(tmp_path / "a.troy"), text)
    span = definition(EditedText(source, unsaved), at("mine::fresh", text))
    assert span is not None
    assert (span.source.name, span.text) == (str(tmp_path / "mine.tremor"), "fresh")


@pytest.mark.parametrize(
    ("text", "some", "never"),
    [
        ("define connector a from |", ["tcp_server", "kafka_consumer"], ["qos::wal"]),
        ("define connector a from tcp_|", ["tcp_server"], []),
        ("define operator a from |", ["qos::wal", "generic::batch"], ["tcp_server"]),
        ('define connector a from file with config = {"|', ["path", "mode"], ["tls.cert"]),
        ('define connector a from file with config = {"path": "x", "mo|"}', ["mode"], []),
        ('define connector a from tcp_server with config = {"tls": {"|', ["cert", "key"], ["url", "tls.cert"]),
        ('define connector a from file with config = {"mode": "|', ["append", "overwrite"], ["path"]),
        ("define connector a from file with |", ["codec", "config"], ["path"]),
        ('define connector a from file with codec = "|', ["json", "msgpack"], []),
        ('define connector a from file with postprocessors = ["|', ["separate", "compress"], ["decompress"]),
        ("define operator a from qos::dedupe with |", ["max_keys"], ["codec"]),
        ("use std::|", ["string", "array"], ["std"]),
        ("use |", ["std::string"], []),
        ("use std::{|", ["string"], ["std"]),
        ("use std::{string, |", ["array"], ["std"]),
        ("use std::string;\nselect string::|", ["uppercase", "len"], ["std"]),
        ("use std::string;\nselect string::up|", ["uppercase"], []),
        ("define pipeline p pipeline create script s; select event from in into |", ["s", "out"], ["in"]),
        ("define flow f flow define connector here from file; create connector |", ["here"], ["f"]),
        ("define flow f flow create connector here; connect /connector/|", ["here"], []),
        (("define flow f flow define connector h from file; create connector h; "
"connect /connector/h/|"), ["out", "err"], ["in"]),
        ("define flow f flow end; deploy flow |", ["f"], []),
        ("define |", ["connector", "pipeline"], []),
        ("|", ["define", "use"], []),
    ],
)  # fmt: skip
def test_completion(text: str, some: list[str], never: list[str]) -> None:
    found = labels(text)
    assert set(some) <= set(found)
    assert not set(never) & set(found)


@pytest.mark.parametrize("text", ["# a comment |", 'define connector a from file with config = {"path": "a # |'])
def test_nothing_is_completed(text: str) -> None:
    assert labels(text) == []


def test_a_text_that_ends_anywhere_gets_an_answer() -> None:
    """Also at each place of it: a cursor may be anywhere in a broken file."""
    for end in range(0, len(FLOW) + 1, 31):
        text = edited(FLOW[:end])
        complete(text, end)
        for offset in range(0, end + 1, 101):
            hover(text, offset, {})
            definition(text, offset)


def as_check(path: Path) -> list[str]:
    return [str(one) for one in load([path])[1]]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests/lang/mistakes/seen").glob("*.troy")), ids=lambda path: path.stem
)
def test_diagnostics_are_those_of_check(path: Path) -> None:
    examined = examine(Source(str(path), path.read_text()), ALL_SAVED)
    assert [str(one) for one in examined.found] == as_check(path)
    assert all(one.span is not None for one in examined.found)


def said(text: str, path: Path = ROOT / "x.troy") -> list[str]:
    return [one.message for one in examine(Source(str(path), text), ALL_SAVED).found]


def test_a_module_deploys_nothing_and_is_no_mistake() -> None:
    assert said("define flow a flow end;\n") == []
    assert said("const a = 1 + b;\n") == ["unknown constant `b`"]
    assert said("fn f(x) with x +  end;\n", ROOT / "m.tremor") != []
    assert said("fn f(x) with x end;\n", ROOT / "m.tremor") == []


def test_scripts_and_pipelines_alone() -> None:
    assert said("let event.a = 1;\nevent\n", ROOT / "s.tremor") == []
    assert said("let event.a = evnt.b;\nevent\n", ROOT / "s.tremor") != []
    assert said("select event from in into out\n", ROOT / "p.trickle") == []
    assert said("select event frm in into out\n", ROOT / "p.trickle") != []


def test_a_mistake_in_a_module_stands_at_its_use(tmp_path: Path) -> None:
    (tmp_path / "mine.tremor").write_text("fn f(x) with x + end;\n")
    source = Source(str(tmp_path / "a.troy"), "define flow a flow end;\nuse mine;\ndeploy flow a;\n")
    (found, *_) = [one for one in examine(source, ALL_SAVED).found if one.severity == "error"]
    assert found.span is not None
    assert found.span.text == "mine"
    assert found.message.startswith(f"{tmp_path}/mine.tremor:1:")


def test_warnings_of_guarantees_stand_at_their_node() -> None:
    examined: Examined = examine(Source(str(ROOT / "x.troy"), FLOW), ALL_SAVED)
    places = {one.name: one.span.text for one in examined.found if one.span}
    assert places["state-in-memory"] == "shout"


def test_a_text_too_large_to_check_while_typing() -> None:
    (found,) = examine(Source("/x.troy", "# " + "x" * LARGEST), ALL_SAVED).found
    assert "is not checked while it is edited" in found.message
