"""`formatted`: one layout, the same tokens, and nothing to do the second time."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from walflow.diagnostics import Source
from walflow.lang.layout import formatted
from walflow.lang.scan import comments, scan

ROOT = Path(__file__).parents[2]
FILES = [
    path
    for folder in ("flows", "walflow/modules", "walflow/cli/new/templates", "tests/lang", "tests/cases")
    for suffix in ("troy", "trickle", "tremor")
    for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))
]
EXAMPLES = [
    block
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for block in re.findall(r"```(?:troy|tremor)[^\n]*\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
]
TEXTS = [path.read_text("utf-8", errors="replace") for path in FILES] + EXAMPLES


def meaning(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """All that is in a file, without what is between."""
    source = Source("x.troy", text)
    return [(token.type, str(token)) for token in scan(source)], [one.text.rstrip() for one in comments(source)]


def laid_out(text: str) -> str:
    return formatted(Source("x.troy", text))


@pytest.mark.parametrize("part", range(4))
@pytest.mark.test
def test_each_file_and_example_keeps_its_tokens_and_comments_and_needs_no_second_time(part: int) -> None:
    for text in TEXTS[part::4]:
        once = laid_out(text)
        assert meaning(once) == meaning(text)
        assert laid_out(once) == once


def test_there_are_many() -> None:
    assert len(FILES) > 100
    assert len(EXAMPLES) > 50


PIECES = st.sampled_from(
    [
        *(
            "define",
            "flow",
            "pipeline",
            "script",
            "args",
            "with",
            "end",
            ";",
            ",",
            "match",
            "of",
            "case",
            "default",
            "=>",
        ),
        *("{", "}", "[", "]", "(", ")", "%{", "event", ".", "a", "1", "=", "==", "-", "+", "~=", '"x"', '"#{ 1 }"'),
        *(
            "select",
            "from",
            "into",
            "where",
            "merge",
            "patch",
            "insert",
            "# why\n",
            "\n",
            "\n\n\n",
            "  ",
            "$",
            "::",
            ":",
        ),
    ]
)


@given(st.lists(PIECES, max_size=40).map(" ".join))
def test_any_text_keeps_its_tokens_and_comments_and_needs_no_second_time(text: str) -> None:
    once = laid_out(text)
    assert meaning(once) == meaning(text)
    assert laid_out(once) == once


UGLY = '''
define flow main
args
port=4242,   # of all
   host  =  "127.0.0.1"
flow
use tremor::pipelines;



define connector in from tcp_server
args port,host
with
codec="json" ,
    config = { "url":  "#{ args.host }:#{args.port}",
"buf_size": 1024 }
end ;
# what it counts
define pipeline count
pipeline
define script s
script
match event of
case %{ present a } => let $x = 1;
emit event
default => drop
end
end;
create script s;
select {
"a":event.a, "text": """
  as it
 is
"""
}
from in
where event.a>1
into s;
end;
create connector in with port=args.port,host=args.host end;
end;
deploy flow main;
'''

NEAT = '''\
define flow main
args
  port = 4242,  # of all
  host = "127.0.0.1"
flow
  use tremor::pipelines;

  define connector in from tcp_server
  args port, host
  with
    codec = "json",
    config = {"url": "#{ args.host }:#{args.port}",
      "buf_size": 1024}
  end;
  # what it counts
  define pipeline count
  pipeline
    define script s
    script
      match event of
        case %{present a} => let $x = 1;
          emit event
        default => drop
      end
    end;
    create script s;
    select {
      "a": event.a, "text": """
  as it
 is
"""
    }
    from in
    where event.a > 1
    into s;
  end;
  create connector in with port = args.port, host = args.host end;
end;
deploy flow main;
'''


def test_a_layout() -> None:
    assert laid_out(UGLY) == NEAT


DIRECTIVES = """define pipeline counting
pipeline
  #!config engine = "spark"
  #!config spark = {
    "buckets": 2
  }
  #!config metrics_interval_s =
    10
  use std::time::nanos;
  select event from in
  where event.a into out;
end;
"""


def test_a_directive_ends_without_a_semicolon() -> None:
    assert laid_out(DIRECTIVES) == DIRECTIVES
