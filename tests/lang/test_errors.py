"""Every mistake in `errors/` with the very text that a person reads: NAME.troy, and NAME.out beside it."""

import os
import re
from pathlib import Path

import pytest

from tests.examples import shared
from tests.lang.world import checked

ERRORS = Path(__file__).parent / "errors"


@pytest.mark.parametrize("name", sorted(file.stem for file in ERRORS.glob("*.troy")))
def test_what_is_said_of(name: str) -> None:
    os.chdir(ERRORS)  # the fixture leads back
    _, said = checked(f"{name}.troy")
    assert said + "\n" == (ERRORS / f"{name}.out").read_text(encoding="utf-8")


def test_each_kind_of_mistake_in_KINDS_is_among_them() -> None:
    said = "\n".join(path.read_text(encoding="utf-8") for path in ERRORS.glob("*.out"))
    lines = re.findall(r"^(?:\S+:\d+:\d+: )?((?:error|warning): .*)$", said, re.MULTILINE)
    # a name or a number is `…` in the list; of circles, the names
    seen = {re.sub(r"`[^`]*`|\b\d+\b|(?<=: )[a-z:]+( -> [a-z:]+)+", "…", line) for line in lines}
    listed = (ERRORS / "KINDS").read_text(encoding="utf-8").splitlines()
    assert [kind for kind in listed if kind not in seen] == []


def test_unreadable_files_are_a_line_each() -> None:
    Path("folder.troy").mkdir()
    Path("latin.troy").write_bytes(b"define flow a\nflow\n# gr\xfc\xdfe\nend;")
    assert checked("nowhere.troy", "folder.troy", "latin.troy", "bad\0name.troy")[1].splitlines() == [
        "error: cannot read nowhere.troy: no such file or directory",
        "error: cannot read folder.troy: is a directory",
        "error: cannot read latin.troy: line 3 is not UTF-8",
        "error: cannot read 'bad\\x00name.troy': this is no file name",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read() -> None:
    Path("secret.troy").touch(mode=0)
    assert checked("secret.troy")[1] == "error: cannot read secret.troy: permission denied"


NESTED = [
    "[" * 10_000,
    "(" * 10_000 + "1" + ")" * 10_000,
    '{"a":' * 10_000 + "1" + "}" * 10_000,
    '"#{' * 10_000 + "1" + '}"' * 10_000,
    "match " * 10_000,
    "- " * 10_000 + "1",
    "not " * 10_000 + "true",
    "1" + " + 1" * 10_000,
    "args" + ".a" * 10_000,
    '"' + "x" * 1_000_000 + '"',
    "9" * 100_000,
    "0x" + "f" * 100_000,
]


@pytest.mark.parametrize("value", shared(NESTED), ids=lambda value: value[:6])
def test_deep_nesting_and_long_lines_are_diagnostics(value: str) -> None:
    text = f"define flow a flow define connector m from metronome with config = {value} end; create connector m; end;"
    Path("main.troy").write_text(f"{text} deploy flow a;", encoding="utf-8")
    assembly, said = checked("main.troy")
    assert assembly is None
    assert all(len(line) < 400 for line in said.splitlines())


@pytest.mark.parametrize("text", ["define flow a flow " * 5_000, "use a::{" * 5_000, ";" * 20_000, "end;" * 5_000])
def test_deep_statements_are_diagnostics(text: str) -> None:
    Path("main.troy").write_text(text, encoding="utf-8")
    assembly, said = checked("main.troy")
    assert assembly is None
    assert len(said.splitlines()) < 200


def test_a_long_chain_of_constants_is_a_diagnostic_and_not_one_each() -> None:
    chain = "".join(f"const a{n} = [a{n + 1}];\n" for n in range(500))
    Path("main.troy").write_text(f"{chain}const a500 = 1;\ndefine flow f flow end; deploy flow f;", encoding="utf-8")
    assembly, said = checked("main.troy")
    assert assembly is None
    errors = [line for line in said.splitlines() if "error" in line]
    assert errors[0] == "main.troy:1:7: error: this constant needs too many others"
    assert len(errors) < 10


def test_a_message_never_carries_escape_sequences() -> None:
    Path("main.troy").write_text('define flow `a\x1b[31m` flow "\x07" end;', encoding="utf-8")
    _, said = checked("main.troy")
    assert "\x1b" not in said
    assert "\x07" not in said
