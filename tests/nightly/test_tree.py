"""What a test file reaches, in a small tree of the same shape as ours."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.nightly.tree import Tree

SMALL: Mapping[str, str] = {
    "pyproject.toml": '[project.entry-points."walflow.connectors"]\nnull = "connectors.null:Null"\n'
    '[project.entry-points."walflow.codecs"]\njson = "walflow.codecs.json:json_codec"\n',
    ".ci/requirements.lock": "pytest==9\n",
    "walflow/__init__.py": "from walflow.event import Block\n",
    "walflow/__main__.py": "def main():\n    from walflow.cli import app\n",
    "walflow/event.py": "",
    "walflow/cli.py": "",
    "walflow/lang/__init__.py": "",
    "walflow/lang/parser.py": "from . import tokens\n",
    "walflow/lang/tokens.py": "",
    "walflow/lang/troy.lark": "",
    "walflow/codecs/__init__.py": "",
    "walflow/codecs/json.py": "",
    "connectors/null.py": "import walflow\n",
    "flows/a.troy": "define connector out from null;\n",
    "flows/b.troy": "",
    "docs/a.md": "",
    "tests/conftest.py": "import walflow.cli\nfrom tests import late\n",
    "tests/late.py": "import walflow.cli\n",
    "tests/lang/conftest.py": "",
    "tests/lang/test_parser.py": '"""Not docs/a.md."""\nfrom walflow.lang import parser\n',
    "tests/lang/errors/x.troy": "",
    "tests/test_event.py": "from walflow.event import Block\n",
    "tests/test_page.py": 'PAGE = "docs/a.md"\nCODEC = "json"\n',
    "tests/test_flow.py": 'FLOW = ROOT / "flows" / "a.troy"\n',
    "tests/test_flows.py": 'FLOWS = ROOT / "flows"\n',
    "tests/test_run.py": 'COMMAND = [sys.executable, "-m", "walflow"]\n',
    "tests/test_text.py": "FLOW = '''define connector out from null with codec = \"json\"'''\n",
    "tests/test_bad.py": "this is no Python\n",
}
ALWAYS = {"tests/conftest.py", "tests/late.py"}
PACKAGE = {"walflow/__init__.py", "walflow/event.py"}
REACHED: dict[str, set[str]] = {
    "tests/lang/test_parser.py": {
        "tests/lang/conftest.py", "tests/lang/errors/x.troy", "walflow/lang/__init__.py", "walflow/lang/parser.py",
        "walflow/lang/tokens.py", "walflow/lang/troy.lark", "walflow/__main__.py", "walflow/cli.py", *PACKAGE,
    },
    "tests/test_event.py": PACKAGE,
    "tests/test_page.py": {"docs/a.md", "walflow/codecs/__init__.py", "walflow/codecs/json.py", *PACKAGE},
    "tests/test_flow.py": {"flows/a.troy", "connectors/null.py", *PACKAGE},
    "tests/test_flows.py": {"flows/a.troy", "flows/b.troy", "connectors/null.py", *PACKAGE},
    "tests/test_run.py": {"walflow/__main__.py", "walflow/cli.py", *PACKAGE},
    "tests/test_text.py": {
        "connectors/null.py", "walflow/codecs/__init__.py", "walflow/codecs/json.py", *PACKAGE,
    },
    "tests/test_bad.py": set(),
}  # fmt: skip
REACHED["tests/lang/test_parser.py"] -= {"walflow/__main__.py", "walflow/cli.py"}


def made(root: Path, files: Mapping[str, str] = SMALL) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


@pytest.mark.parametrize("file", REACHED)
def test_what_a_test_reaches(file: str, tmp_path: Path) -> None:
    tree = Tree.read(made(tmp_path))
    assert tree.reached(file).keys() == {file, *REACHED[file], *ALWAYS}


def test_how_far_it_is(tmp_path: Path) -> None:
    tree = Tree.read(made(tmp_path))
    far = tree.reached("tests/lang/test_parser.py")
    assert [
        far[path] for path in ("tests/lang/test_parser.py", "walflow/lang/parser.py", "walflow/lang/tokens.py")
    ] == [0, 1, 2]


@pytest.mark.parametrize(
    ("changed", "differ"),
    [
        ("walflow/lang/troy.lark", {"tests/lang/test_parser.py"}),
        ("flows/b.troy", {"tests/test_flows.py"}),
        ("walflow/cli.py", {"tests/test_run.py"}),
        ("tests/late.py", {*REACHED}),
        (".ci/requirements.lock", {*REACHED}),
        ("README.md", set[str]()),
    ],
)
def test_the_digest_is_of_what_it_reaches(changed: str, differ: set[str], tmp_path: Path) -> None:
    tree = Tree.read(made(tmp_path))
    before = {file: tree.digest(file) for file in REACHED}
    assert tree.again() is tree
    (tmp_path / changed).write_text("# changed\n", encoding="utf-8")
    after = tree.again()
    assert {file for file in REACHED if after.digest(file) != before[file]} == differ


def test_how_code_is_formatted_is_no_reason_to_run_a_test(tmp_path: Path) -> None:
    before = Tree.read(made(tmp_path)).digest("tests/test_event.py")
    with (tmp_path / "pyproject.toml").open("a") as project:
        project.write("[tool.ruff]\nline-length = 100\n")
    assert Tree.read(tmp_path).digest("tests/test_event.py") == before
    with (tmp_path / "pyproject.toml").open("a") as project:
        project.write("[tool.pytest]\nxfail_strict = true\n")
    assert Tree.read(tmp_path).digest("tests/test_event.py") != before
