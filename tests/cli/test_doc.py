"""`walflow doc`: shipped modules and a user's own, on the terminal and as Markdown."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.examples import sampled
from walflow.cli import app, doc_err
from walflow.compile.reference import declared
from walflow.delivery import LETTER_FAMILIES, LOG_FAMILIES
from walflow.metrics import CORE, exposed

MODULE = """\
### Prices.
###
### With and without tax.
use std::math;

## Adds the tax.
##     prices::gross(100) == 119
fn gross(net) with
  ## not about a definition
  let made = net * rate;
  made
end;

## What is added.
const rate = 1.19;

fn bare(a, b) of
  case (1, b) => b
  default => 0
end;

## Events with their price.
define pipeline priced
pipeline
  select event from in into out;
end;
"""

TEXT = """\
shop::prices
  Prices.

  With and without tax.

fn gross(net)
  Adds the tax.
      prices::gross(100) == 119

const rate = 1.19
  What is added.

fn bare(a, b)

define pipeline priced
  Events with their price.
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop").mkdir()
    Path("shop/prices.tremor").write_text(MODULE)
    Path("main.troy").write_text("define flow main flow end;\ndeploy flow main;\n")


def doc(*arguments: str) -> Result:
    return CliRunner().invoke(app(), ["doc", *arguments])


def test_a_module_of_ones_own() -> None:
    result = doc("shop::prices")
    assert (result.exit_code, result.stdout) == (0, TEXT)


def test_one_thing_in_a_module() -> None:
    assert doc("shop::prices::rate").stdout == "const rate = 1.19\n  What is added.\n"


def test_where_modules_are() -> None:
    assert doc("--dir", "shop", "prices::rate").stdout == "const rate = 1.19\n  What is added.\n"


def test_a_function_of_walflows_own() -> None:
    assert doc("std::string::len").stdout.splitlines() == [
        "len(text: string) -> integer",
        "  Its number of characters.",
        '      string::len("hé") == 2',
    ]


@pytest.mark.parametrize("path", sampled(sorted({one.path for one in declared()})))
def test_every_shipped_function_is_in_its_modules_text(path: str) -> None:
    shown = doc(path).stdout.splitlines()
    names = [one.name for one in declared() if one.path == path]
    assert [name for name in names if not any(line.startswith(f"{name}(") for line in shown)] == []


def test_a_module_of_modules_names_them() -> None:
    assert "Modules: std::time::nanos" in doc("std::time").stdout


def test_the_list() -> None:
    lines = doc().stdout.splitlines()
    assert lines[0].split(maxsplit=1) == ["shop::prices", "Prices."]
    assert any(line.startswith("std::string ") for line in lines)
    assert not any(line.startswith("main") for line in lines)


def test_pages() -> None:
    result = doc("--markdown", "pages")
    assert (result.exit_code, result.stdout) == (0, "written: pages/shop/prices.md\n")
    page = Path("pages/shop/prices.md").read_text()
    assert page.startswith(
        "# shop::prices\n\nPrices.\n\nWith and without tax.\n\n## Functions\n\n### gross\n\n```tremor\nfn gross(net)\n"
    )
    assert "Adds the tax.\n\n```tremor\nprices::gross(100) == 119\n```\n" in page
    assert doc("std::string", "--markdown", "pages").stdout == "written: pages/std/string.md\n"


def test_types_of_connectors_and_operators() -> None:
    assert doc("wal").stdout == CliRunner().invoke(app(), ["connectors", "show", "wal"]).stdout
    lines = doc("qos::wal").stdout.splitlines()
    assert lines[0].startswith("qos::wal: A log within a pipeline")
    assert any(line.startswith("max_elements  integer") for line in lines)


REFUSED = [
    (("std::strnig",), 66, "there is no module and no type `std::strnig`; did you mean `std::string`?"),
    (("std::string::lne",), 66, "module `std::string` has no `lne`; did you mean `len`?"),
    (("shop::prices::x",), 66, "module `shop::prices` has no `x`; it has gross, rate, bare, priced"),
    (("nowhere",), 66, "there is no module and no type `nowhere`"),
    (("wall",), 66, "there is no module and no type `wall`; did you mean `wal`?"),
    (("upper",), 66, "there is no module and no type `upper`; did you mean `std::string::uppercase`?"),
    (
        ("string::uppercase",),
        66,
        "there is no module and no type `string::uppercase`; did you mean `std::string::uppercase`?",
    ),
    (("--dir", "pages", "--markdown", "out"), 66, "pages: there is no module, a file that ends in .tremor"),
    (("--markdown", "main.troy/x"), 73, "--markdown main.troy/x/shop/prices.md: Not a directory"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), REFUSED)
def test_what_is_refused(arguments: tuple[str, ...], code: int, said: str) -> None:
    result = doc(*arguments)
    assert result.stderr.startswith(f"walflow: {said}")
    assert result.exit_code == code


def test_where_an_event_can_end() -> None:
    told = doc("err").stdout
    assert all(end.outcome in told and exposed(end.metric) in told for end in doc_err.ENDS)
    assert all(end.metric in {**CORE, **LOG_FAMILIES, **LETTER_FAMILIES} for end in doc_err.ENDS), (
        "each of them is a metric that there is"
    )
