"""What wins where something is said twice, and who sees which names: a table of flow files and what comes of them."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compile.world import interpreted
from tests.lang.world import Log, assembled

MODULES = {
    "lib": """
        use inner;
        const size = 7;
        const shown = "lib #{size}";
        define connector log from wal args path, size = size with config = {"path": args.path, "chunk_size": args.size} end;
        define pipeline tell args what = shown pipeline select args.what from in into out; end;
        define pipeline deep pipeline select inner::deepest from in into out; end;
        define flow logs args path = "lib", size = size flow
          create connector log with path = args.path, size = args.size end;
          create pipeline tell with what = "#{args.path} by lib" end;
        end;
    """,
    "inner": 'const deepest = "inner"; const size = 99;',
    "other": ('const size = 8; const shown = "other"; define pipeline tell pipeline select shown from in into out; '
'end;'),
}  # fmt: skip

LOG = """
  define connector log from wal
  args
    path = "definition",
    size = 1
  with
    config = {"path": args.path, "chunk_size": args.size}
  end;
"""
TELL = "define pipeline tell args what pipeline select args.what from in into out; end;"


class Case(NamedTuple):
    """`logs` and `tells`: path and size of each log, and what each pipeline makes of an event, by their ids."""

    says: str
    text: str
    logs: dict[str, tuple[str, int]]
    tells: dict[str, object]


def flow(body: str, args: str = "", before: str = "", deploy: str = "deploy flow main;") -> str:
    return f"{before}\ndefine flow main\n{args}\nflow\n{body}\nend;\n{deploy}"


CASES = [
    Case("a default of the definition", flow(LOG + "create connector log;"), {"main::log": ("definition", 1)}, {}),
    Case(
        "the `with` of a create before the default, for each of those created",
        flow(
            LOG
            + ('create connector a from log with path = "a" end; create connector b from log with path = "b", '
'size = 2 end;')
        ),
        {"main::a": ("a", 1), "main::b": ("b", 2)},
        {},
    ),
    Case(
        "the flow's own default, handed on",
        flow(LOG + "create connector log with path = args.path end;", 'args path = "flow"'),
        {"main::log": ("flow", 1)},
        {},
    ),
    Case(
        "the `with` of a deployment before the flow's default, for each deployment",
        flow(
            LOG + "create connector log with path = args.path, size = args.n * 2 end;",
            'args path = "flow", n = 3',
            deploy='deploy flow main; deploy flow b from main with path = "b" end; '
            'deploy flow c from main with n = 5, path = "c" end;',
        ),
        {"main::log": ("flow", 6), "b::log": ("b", 6), "c::log": ("c", 10)},
        {},
    ),
    Case(
        "a create's `with` before the deployment's: an arg of the same name is another one",
        flow(
            LOG + 'create connector log with path = "create" end;',
            'args path = "flow"',
            deploy='deploy flow main with path = "deploy" end;',
        ),
        {"main::log": ("create", 1)},
        {},
    ),
    Case(
        "a default within a flow reads the flow's args",
        flow(
            LOG.replace('"definition"', '"#{args.path}/default"') + "create connector log;",
            "args path",
            deploy='deploy flow main with path = "deploy" end;',
        ),
        {"main::log": ("deploy/default", 1)},
        {},
    ),
    Case(
        "a record is an arg: a part of it is handed on, and another one takes its place as a whole",
        flow(
            TELL + ("create pipeline a from tell with what = args.tls end; "
"create pipeline b from tell with what = args.tls.key end;"),
            'args tls = {"cert": "c", "key": "k"}',
            deploy='deploy flow main; deploy flow second from main with tls = {"key": "other"}, end;',
        ),
        {},
        {
            "main::a": {"cert": "c", "key": "k"},
            "main::b": "k",
            "second::a": {"key": "other"},
            "second::b": "other",
        },
    ),
    Case(
        "args from flow to pipeline to select, of any kind",
        flow(
            TELL + "create pipeline tell with what = [args.a, -args.b, not args.c, args.d] end;",
            'args a = "x", b, c = true, d = null',
            deploy="deploy flow main with b = 1.5 end;",
        ),
        {},
        {"main::tell": ["x", -1.5, False, None]},
    ),
    Case(
        "constants: the innermost of a name counts, each sees those around it, and the order does not matter",
        flow(
            "const b = a + 1;"
            "define pipeline p pipeline const a = 100; select [a, b, c] from in into out; end; create pipeline p;"
            "define pipeline q pipeline select [a, b, c] from in into out; end; create pipeline q;",
            before="const c = a * 10; const a = 1;",
        ),
        {},
        {"main::p": [100, 2, 10], "main::q": [1, 2, 10]},
    ),
    Case(
        "constants are values of any kind, and have parts",
        flow(
            TELL + "create pipeline tell with what = [r.a[0].b, hosts[1], text] end;",
            before=('const r = {"a": [{"b": 7}]}; const hosts = ["x", "#{n}"]; const n = 2; const text = """\n  a\n'
'   b\n  """;'),
        ),
        {},
        {"main::tell": [7, "2", "  a\n   b\n  "]},
    ),
    Case(
        "a constant as a default, and in what is deployed",
        flow(
            LOG + 'create connector log with path = "#{args.n}", size = args.n end;',
            "args n = size",
            before="const size = 5;",
            deploy="deploy flow main; deploy flow twice from main with n = size * 2 end;",
        ),
        {"main::log": ("5", 5), "twice::log": ("10", 10)},
        {},
    ),
    Case(
        "a module's definitions see the module's names, not those of who creates them",
        flow(
            'create connector log from lib::log with path = "p#{size}" end; create pipeline tell from lib::tell;',
            before='use lib; const size = 1; const shown = "mine";',
        ),
        {"main::log": ("p1", 7)},
        {"main::tell": "lib 7"},
    ),
    Case(
        "what a module uses is known behind its name, and its constants are",
        flow(
            TELL
            + ("create pipeline tell with what = [lib::size, lib::inner::size] end; "
"create pipeline deep from lib::deep;"),
            before="use lib;",
        ),
        {},
        {"main::tell": [7, 99], "main::deep": "inner"},
    ),
    Case(
        "a `use` within a flow or a pipeline hides the one around it",
        flow(
            "use other as lib; create pipeline tell from lib::tell;"
            "define pipeline p pipeline use inner as lib; select lib::size from in into out; end; create pipeline p;"
            "define pipeline q pipeline select lib::size from in into out; end; create pipeline q;",
            before="use lib;",
        ),
        {},
        {"main::tell": "other", "main::p": 99, "main::q": 8},
    ),
    Case(
        "a module twice under one name, and under two",
        flow(
            "use lib; use inner as one;"
            + TELL
            + "create pipeline tell with what = [lib::size, one::size, two::size] end;",
            before="use lib; use inner as two;",
        ),
        {},
        {"main::tell": [7, 99, 99]},
    ),
    Case(
        "a flow of a module, deployed under several names, its args overridden",
        ('use lib; deploy flow logs from lib::logs; deploy flow b from lib::logs with path = "b", '
'size = lib::size + 1 end;'),
        {"logs::log": ("lib", 7), "b::log": ("b", 8)},
        {"logs::tell": "lib by lib", "b::tell": "b by lib"},
    ),
    Case(
        "a definition within the flow before one of the file",
        flow(
            "define pipeline tell pipeline select \"flow\" from in into out; end; create pipeline tell;",
            before='define pipeline tell pipeline select "file" from in into out; end;'
            'define pipeline file pipeline select "file" from in into out; end;',
        ).replace("create pipeline tell;", "create pipeline tell; create pipeline file;"),
        {},
        {"main::tell": "flow", "main::file": "file"},
    ),
    Case(
        "names between backquotes, wherever a name may stand",
        """
        use `lib` as `my lib`;
        const `a-b` = 1;
        define flow `the flow`
        args `an arg`
        flow
          define pipeline `p-1` from `left in` into `right-out`, err args `what?` pipeline
            create stream `a stream`;
            select {"it": args.`what?`.`the key`, "c": `a-b`} from `left in` into `a stream`;
            select event from `a stream` into out/`right-out`;
          end;
          create pipeline `a pipeline` from `p-1` with `what?` = args.`an arg` end;
          define connector `out-1` from `null`;
          create connector `out-1`;
          connect /pipeline/`a pipeline`/`right-out` to /connector/`out-1`/`in`;
          create connector log from `my lib`::`log` with `path` = "x" end;
          connect /connector/log to /pipeline/`a pipeline`/`left in`;
        end;
        deploy flow `übung 1` from `the flow` with `an arg` = {"the key": "v"} end;
        """,
        {"übung 1::log": ("x", 7)},
        {"übung 1::a pipeline": {"it": "v", "c": 1}},
    ),
    Case(
        "comments, of definitions and of the file, wherever a space may stand",
        flow(
            "## a\ndefine ## b\npipeline ### c\np ## d\nargs ## e\na = ## f\n1, ### g\npipeline ## h\nselect ## i\n"
"{ ## j\n"
            '"a" ## k\n: args ## l\n. ### m\na } from in ## n\ninto out ## o\n; ## p\nend ## q\n; ## r\ncreate pipeline p ## s\n;'
            "### t\n## at the end",
            before="### file\n## of what follows\n### again\nconst ## u\na ## v\n= 1 ### w\n; ## x\n",
        )
        + "## y",
        {},
        {"main::p": {"a": 1}},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_scopes(case: Case) -> None:
    for name, text in MODULES.items():
        Path(f"{name}.troy").write_text(text, encoding="utf-8")
    assembly = assembled(case.text)
    logs = {str(plan.id): plan.connector for plan in assembly.connectors}
    assert {at: (log.path, log.chunk_size) for at, log in logs.items() if isinstance(log, Log)} == case.logs
    made = {str(plan.id): plan.selects[0].what for plan in assembly.pipelines}
    assert {at: interpreted(what.term, {}) for at, what in made.items() if what} == case.tells
