"""The whole of tremor's language reads."""

from pathlib import Path

import pytest

from tests.lang.world import checked
from walflow.diagnostics import Diagnostic, Source
from walflow.lang.parser import parse

STATEMENTS = """
select event from in into out
select event.a.b[0][1:2] from in/late into out/ws0
select {} from in where present event.a and not absent $meta or event.b == 1 into out
select { "a": aggr::stats::count() } from in[w, m::w2] group by set(event.a, each(event.b)) into out having true
select patch event of insert "a" => 1; upsert "b" => 2; update "c" => 3; erase "d" end from in into out
select patch event of move "e" => "f"; copy "g" => "h"; merge "i" => {}; merge => {} end from in into out
select patch event of default "j" => 1; default => {} end from in into out
select merge event of { "hostname": system::hostname() } end from in into out
select match event of case %{a == 1, present b, absent c} when true => 1, 2 default => null end from in into out
select match event of case %{d ~= re|^x\\|y|, e ~= %[1, _]} => 1 case _ => 5 end from in into out
select match event of case %(1, _, ...) => 2 case %(...) => 3 case ~ json|| => 4 end from in into out
select match event of case x = %{} => x case "a" => 1 end from in into out
select for event of case (k, v) when k == "a" => {"#{k}": v} end from in into out
select << 1, 2:8, event.a/string, 3:16/unsigned >> from in into out
select (1 + 2 * 3 - 4 / 5 % 6 << 1 >> 2 >>> 3) & 1 | 2 ^ 3 from in into out
select 1 < 2 xor 2 >= 3 != true from in into out
select -1 + +2 from in where !event.a == 0xff into out
define operator bucket from grouper::bucket
define operator batch from generic::batch args count with count = args.count, timeout = 1 end
define qos::wal operator wal with read_count = 20, dir = "a" end
define script s args a = 1 state {} script from p let state.x = event; emit state => "p" script drop end
define script s script let $a.b = event; emit; emit event; emit => "x"; use a; const b = 1; fn f() with 1 end end
define script m script match event of case 1 => let x = 1; emit x default => drop end end
define script f script for event of case (k, v) => let x = v; k end end
define window w from tumbling with interval = 1, emit_empty_windows = true script event.ts end
define window w from sliding with size = 5 end
define pipeline inner from in into out pipeline select event from in into out end
create operator batch from m::batch with count = 1 end
create script s
create stream x
create pipeline inner
use std::{array, time::{nanos as n, timestamp}}
""".strip().splitlines()
HEREDOC = 'select """\n  a heredoc with #{event.a}\n  and "quotes"\n""" from in into out'
MODULE = """
### A module
const pi = 3.14;
## twice
fn twice(x, ...) with let y = x * 2; y end;
fn fib(n, a) of case (0, _) => a case (~ json||, x) when x > 1 => 2 default => recur(n - 1, a) end;
intrinsic fn f() as a::b;
intrinsic fn g(x, ...) as a::b;
define connector a from "pkg.mod:Class" args x, y = 1, with codec = "json", config = {"a": [1, 2,], }, end;
define connector b from `pkg.mod:Class`;
"""


@pytest.mark.parametrize("statement", [*STATEMENTS, HEREDOC])
def test_queries_read(statement: str) -> None:
    found: list[Diagnostic] = []
    text = f"define pipeline p\npipeline\n  #!config a = 1\n  {statement};\n  create pipeline inner;\nend;"
    file = parse(Source("main.troy", text), found.append)
    assert file.whole, found
    assert not found


def test_modules_read() -> None:
    found: list[Diagnostic] = []
    file = parse(Source("main.troy", MODULE), found.append)
    assert file.whole, found
    assert not found


def test_a_word_of_the_language_is_a_name_where_nothing_else_can_be_meant() -> None:
    text = """
define flow state
args
  window = "a"
flow
  define connector null from null with codec = "json" end;
  create connector null;
  create connector event from null;
  use tremor::pipelines as of;
  create pipeline match from of::passthrough;
  connect /pipeline/match to /connector/null;
  connect /pipeline/match to /connector/event;
end;
deploy flow state with window = "b" end;
"""
    Path("main.troy").write_text(text, encoding="utf-8")
    assembly, said = checked("main.troy")
    assert assembly is not None, said
    assert [str(plan.id) for plan in assembly.connectors] == ["state::null", "state::event"]
