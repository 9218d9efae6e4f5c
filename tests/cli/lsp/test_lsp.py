"""`walflow lsp` as an editor has it: one process, JSON-RPC over its stdin and stdout."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from walflow.cli.lsp.examine import LARGEST
from walflow.extras import install_line

FLOW = """\
define flow main
flow
  define connector door from file
  with
    codec = "json",
    config = {"path": "a \N{GRINNING FACE}", "mode": "read"}
  end;
  create connector door;
end;
deploy flow main;
"""


class Editor:
    """Sends requests and reads what comes. A diagnostic is kept until it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        with (folder / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "walflow", "lsp"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=folder,
            )

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def send_bytes(self, body: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def send(self, method: str, params: object, **more: object) -> None:
        self.send_bytes(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode())

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, (self.folder / "stderr").read_text()
        message: dict[str, Any] = json.loads(self.process.stdout.read(length))
        return message

    def ask(self, method: str, params: object) -> Any:
        """The result, or the error."""
        self.number += 1
        self.send(method, params, id=self.number)
        while (message := self.receive()).get("id") != self.number:
            pass
        return message.get("result", message.get("error"))

    def open(self, name: str, text: str) -> None:
        document = {"uri": self.uri(name), "languageId": "troy", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document})

    def change(self, name: str, version: int, text: str) -> None:
        named = {"uri": self.uri(name), "version": version}
        self.send("textDocument/didChange", {"textDocument": named, "contentChanges": [{"text": text}]})

    def close(self, name: str) -> None:
        self.send("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    def found(self, name: str, version: int | None) -> list[dict[str, Any]]:
        """Waits for the diagnostics of that version."""
        while True:
            message = self.receive()
            told = message.get("params", {})
            if message.get("method") != "textDocument/publishDiagnostics":
                continue
            if (told["uri"], told.get("version")) == (self.uri(name), version):
                diagnostics: list[dict[str, Any]] = told["diagnostics"]
                return diagnostics

    def at(self, name: str, text: str, words: str) -> dict[str, object]:
        line, character = next((n, one.index(words)) for n, one in enumerate(text.split("\n")) if words in one)
        place = {"line": line, "character": character + len(words)}
        return {"textDocument": {"uri": self.uri(name)}, "position": place}


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("lsp"))
    try:
        started = editor.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        assert started["serverInfo"]["name"] == "walflow"
        provided = started["capabilities"]
        assert provided["textDocumentSync"]["change"] == 1
        for one in ("hoverProvider", "completionProvider", "definitionProvider", "documentFormattingProvider"):
            assert provided[one], one
        editor.send("initialized", {})
        yield editor
        assert editor.ask("shutdown", None) is None
        editor.send("exit", None)
        assert editor.process.wait(60) == 0
    finally:
        editor.process.kill()
        editor.process.wait()
        for stream in (editor.process.stdin, editor.process.stdout):
            assert stream
            stream.close()


def test_a_mistake_comes_and_goes_with_the_text(editor: Editor) -> None:
    editor.open("a.troy", FLOW.replace('"mode": "read"', '"mode": "raed"'))
    (found,) = editor.found("a.troy", 1)
    assert found["severity"] == 1
    assert found["source"] == "walflow"
    # in units of UTF-16: the face before it is two
    assert found["range"]["start"] == {"line": 5, "character": 38}
    assert "did you mean `read`" in found["message"] or '"read"' in found["message"]
    editor.change("a.troy", 2, FLOW)
    assert [one["severity"] for one in editor.found("a.troy", 2) if one["severity"] == 1] == []
    editor.close("a.troy")
    assert editor.found("a.troy", None) == []


def test_answers(editor: Editor) -> None:
    editor.open("b.troy", FLOW)
    hovered = editor.ask("textDocument/hover", editor.at("b.troy", FLOW, "from file"))
    assert "**file** (connector)" in hovered["contents"]["value"]
    assert hovered["range"]["start"] == {"line": 2, "character": 29}
    proposed = editor.ask("textDocument/completion", editor.at("b.troy", FLOW, "from "))
    items = proposed["items"] if isinstance(proposed, dict) else proposed
    assert "tcp_server" in [one["label"] for one in items]
    gone = editor.ask("textDocument/definition", editor.at("b.troy", FLOW, "create connector do"))
    assert gone["uri"] == editor.uri("b.troy")
    assert gone["range"]["start"] == {"line": 2, "character": 19}
    editor.close("b.troy")


def test_formats_as_fmt_does_and_leaves_a_broken_text(editor: Editor) -> None:
    ask = {"textDocument": {"uri": editor.uri("c.troy")}, "options": {"tabSize": 2, "insertSpaces": True}}
    editor.open("c.troy", "define flow a\nflow\ncreate   connector x;\nend;\n")
    (edit,) = editor.ask("textDocument/formatting", ask)
    assert edit["newText"] == "define flow a\nflow\n  create connector x;\nend;\n"
    assert edit["range"]["end"] == {"line": 4, "character": 0}
    editor.change("c.troy", 2, "define flow a flow create   connector")
    assert editor.ask("textDocument/formatting", ask) is None
    editor.close("c.troy")


def test_a_change_of_a_module_checks_what_uses_it(editor: Editor) -> None:
    using = "use mine;\nconst b = mine::a;\n"
    (editor.folder / "mine.tremor").touch()
    editor.open("mine.tremor", "const a = 1;\n")
    editor.open("uses.troy", using)
    assert editor.found("uses.troy", 1) == []
    editor.change("mine.tremor", 2, "const other = 1;\n")
    while not (found := editor.found("uses.troy", 1)):
        pass
    assert "`a`" in found[0]["message"]
    editor.close("mine.tremor")
    editor.close("uses.troy")


def test_no_request_ends_the_server(editor: Editor) -> None:
    editor.send_bytes(b"{this is no JSON")
    editor.send_bytes(b"[]")
    editor.send_bytes(b'{"jsonrpc": "2.0", "id": 900, "method": "no/such", "params": {}}')
    nowhere = {"textDocument": {"uri": "file:///no/such.troy"}, "position": {"line": 7, "character": 9}}
    assert editor.ask("textDocument/hover", nowhere) is None
    assert (
        editor.ask("textDocument/hover", {"textDocument": {"uri": "untitled:1"}, "position": nowhere["position"]})
        is None
    )
    editor.send("textDocument/hover", {"position": "?"}, id=901)
    editor.open(
        "d.troy",
        "define flow \N{GRINNING FACE} \x00 \ud83d".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
    )
    assert editor.found("d.troy", 1) != []
    for place in ({"line": 0, "character": 10**6}, {"line": 10**6, "character": 0}):
        editor.ask("textDocument/completion", {"textDocument": {"uri": editor.uri("d.troy")}, "position": place})
    editor.close("d.troy")


def test_many_changes_of_a_large_text_are_checked_once_or_twice(editor: Editor) -> None:
    """And what is asked meanwhile is answered. The last version is checked."""
    text = "# a comment\n" * (LARGEST // 24)
    editor.open("large.troy", text)
    for version in range(2, 100):
        editor.change("large.troy", version, f"{text}# {version}\n")
    assert editor.ask("textDocument/hover", editor.at("large.troy", text, "a com")) is None
    editor.change("large.troy", 100, text * 3)
    (told,) = editor.found("large.troy", 100)
    assert "is not checked while it is edited" in told["message"]
    editor.close("large.troy")


def test_without_pygls_it_says_how_to_get_it() -> None:
    without = (
        "import sys; sys.modules['pygls'] = None; from walflow_command import main; sys.argv[1:] = ['lsp']; main()"
    )
    ended = subprocess.run([sys.executable, "-c", without], capture_output=True, timeout=100, check=False)
    assert (ended.returncode, ended.stdout) == (69, b"")
    assert ended.stderr.decode() == f"walflow: the language server needs pygls: {install_line('lsp')}\n"
