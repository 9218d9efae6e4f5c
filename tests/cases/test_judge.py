"""What the page docs/reference/test-folders.md says, case by case."""

import sys
from pathlib import Path

import pytest

from walflow.cases import BadCase, Case, find, judge, update
from walflow.cases.junit import Timed, junit

PASS = "select event from in into out;"
FLOW = """
define flow main
flow
  use integration;
  define pipeline p
  pipeline
    define operator log from qos::wal with dir = "log", max_elements = 10 end;
    create operator log;
    select event.n from in into log;
    select event from log into out;
  end;
  create connector source from integration::read_file with file = "in.json" end;
  create connector written from integration::write_file with file = "out.json" end;
  create pipeline p;
  connect /connector/source to /pipeline/p;
  connect /pipeline/p to /connector/written;
end;
deploy flow main;
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")


def made(folder: Path, **files: str) -> Case:
    """`in_jsonl` is `in.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return Case(folder, folder.name)


def problems(folder: Path, **files: str) -> list[str]:
    judged = judge(made(folder, **files))
    return [line.replace(f"{folder}/", "").replace(str(folder), "CASE") for line in judged.problems]


def test_what_comes_is_what_is_expected(tmp_path: Path) -> None:
    judged = judge(
        made(
            tmp_path / "a",
            pipeline_trickle=PASS,
            in_jsonl='1\n\n{"b": 2, "a": 1.50}\n',
            out_jsonl='1\n{"a":1.5,"b":2}',
        )
    )
    assert judged.problems == []
    assert judged.events == 2


@pytest.mark.parametrize(
    ("came", "expected", "said"),
    [
        ("1\n2\n3", "1\n3", ["out, event 2:", "  - nothing is expected", "  + 2"]),
        ("1\n3", "1\n2\n3", ["out, event 2:", "  - 2", "  + nothing came"]),
        ("1\n2\n3", "1\n5\n3", ["out, event 2:", "  - 5", "  + 2"]),
        ("1", "1.0", ["out, event 1:", "  - 1.0", "  + 1"]),
        ("0.0", "-0.0", ["out, event 1:", "  - -0.0", "  + 0.0"]),
        ('"1"', "1", ["out, event 1:", "  - 1", '  + "1"']),
        ("true", "1", ["out, event 1:", "  - 1", "  + true"]),
        ("1e400", "1e401", ["out, event 1:", "  - 1e401", "  + 1e400"]),
        ("18446744073709551617", "18446744073709551616",
         ["out, event 1:", "  - 18446744073709551616", "  + 18446744073709551617"]),
    ],
)  # fmt: skip
def test_what_differs_is_said_by_event(tmp_path: Path, came: str, expected: str, said: list[str]) -> None:
    assert problems(tmp_path / "a", pipeline_trickle=PASS, in_jsonl=came, out_jsonl=expected) == said


def test_a_port_without_a_file_has_no_events(tmp_path: Path) -> None:
    error = '"error": "`event.a`: a whole number without `a`"'
    assert problems(tmp_path / "a", pipeline_trickle="select event.a from in into out;", in_jsonl='{"a": 1}\n2') == [
        "err, event 1:",
        "  - nothing is expected",
        f'  + {{"at": "pipeline.trickle:1:8", {error}, "event": 2, "source": "test::pipeline", "stream_id": 0}}',
        "out, event 1:",
        "  - nothing is expected",
        "  + 1",
    ]


def test_several_places_that_differ(tmp_path: Path) -> None:
    came = [str(number) for number in range(100)]
    expected = [*came[:10], *came[12:50], "x", *came[50:90], "y", *came[91:]]
    said = problems(
        tmp_path / "a",
        pipeline_trickle=PASS,
        in_jsonl="\n".join(came),
        out_jsonl="\n".join(expected).replace("x", '"x"').replace("y", '"y"'),
    )
    assert said == [
        *("out, event 11:", "  - nothing is expected", "  + 10"),
        *("out, event 12:", "  - nothing is expected", "  + 11"),
        *("out, event 49:", '  - "x"', "  + nothing came"),
        *("out, event 91:", '  - "y"', "  + 90"),
    ]


def test_only_the_first_differences_are_shown(tmp_path: Path) -> None:
    said = problems(tmp_path / "a", pipeline_trickle=PASS, in_jsonl="1\n" * 20, out_jsonl="2\n" * 20)
    assert said[-1] == "out: 15 more events differ"
    assert len(said) == 16


def test_an_error_is_compared_by_what_the_line_has(tmp_path: Path) -> None:
    wrong = "select 1 / event from in into out;"
    case = tmp_path / "a"
    assert not problems(case, pipeline_trickle=wrong, in_jsonl="0", err_jsonl='{"error": "division by zero"}')
    assert not problems(case, pipeline_trickle=wrong, in_jsonl="0", err_jsonl='{"source": "test::pipeline"}')
    assert problems(case, pipeline_trickle=wrong, in_jsonl="0", err_jsonl='{"error": "no", "by": 1}') == [
        "err, event 1:",
        '  - {"by": 1, "error": "no"}',
        '  + {"error": "division by zero"}',
    ]


def test_what_is_selected_into_err_is_compared_whole(tmp_path: Path) -> None:
    text = 'select {"error": "no", "more": event} from in into err;'
    assert problems(tmp_path / "a", pipeline_trickle=text, in_jsonl="1", err_jsonl='{"error": "no"}')


def test_metadata_time_ports_and_streams(tmp_path: Path) -> None:
    text = """
        use tremor::system;
        select [$a, system::ingest_ns(), "in"] from in into out/left;
        select [$a, system::ingest_ns(), "late"] from in/late into out/left;
    """
    given = """
        {"value": 1, "meta": {"a": 1}, "ingest_ns": 10}
        {"value": 1, "meta": {"a": 2}, "port": "late", "stream": 7}
        {"value": 1, "meta": {"a": 3}, "ingest_ns": 30}
    """
    expected = """
        {"value": [1, 10, "in"], "ingest_ns": 10}
        {"value": [2, 10, "late"], "meta": {"a": 2}, "stream": 7}
        {"value": [3, 30, "in"], "stream": 0}
    """
    assert not problems(tmp_path / "a", pipeline_trickle=text, in_events_jsonl=given, left_events_jsonl=expected)


def test_inputs_by_file(tmp_path: Path) -> None:
    text = "select event from in into out; select event * 10 from in/late into out;"
    assert not problems(
        tmp_path / "a", pipeline_trickle=text, in_jsonl="1\n2", in_late_jsonl="3", out_jsonl="1\n2\n30"
    )


def test_time_begins_and_goes_on_as_the_settings_say(tmp_path: Path) -> None:
    text = "use tremor::system; select system::nanotime() from in into out;"
    files = {"pipeline_trickle": text, "in_jsonl": "0\n0"}
    assert not problems(tmp_path / "a", **files, out_jsonl="1700000000000000000\n1700000000000000000")
    assert not problems(tmp_path / "b", **files, case_toml="start_ns = 5\nstep_ns = 2", out_jsonl="5\n7")


def test_a_timer_goes_off_before_the_first_later_event_and_when_time_passes(tmp_path: Path) -> None:
    text = """
        define operator b from generic::batch with count = 10, timeout = 100 end;
        create operator b;
        select event from in into b;
        select event from b into out;
        select event from in/late into out;
    """
    given = '{"value": 1, "ingest_ns": 0}\n%s\n{"value": 2, "ingest_ns": 200, "port": "late"}'
    case = tmp_path / "a"
    files = {"pipeline_trickle": text, "out_jsonl": "1\n2"}
    assert not problems(case, **files, in_events_jsonl=given % "")
    assert not problems(case, **files, in_events_jsonl=given % '{"ingest_ns": 150}')
    held = '{"value": 1, "ingest_ns": 0}\n{"value": 2, "ingest_ns": 50, "port": "late"}'
    assert not problems(case, pipeline_trickle=text, out_jsonl="2\n1", in_events_jsonl=held)


def test_args_and_modules(tmp_path: Path) -> None:
    case = tmp_path / "a"
    settings = 'args = {n = 3, names = ["a#{b}", true, 1.5], r = {k = "v"}}'
    text = "use own; select [args.n, args.names, args.r.k, own::seven] from in into out;"
    out = '[3, ["a#{b}", true, 1.5], "v", 7]'
    assert not problems(
        case, pipeline_trickle=text, own_tremor="const seven = 7;", case_toml=settings, in_jsonl="1", out_jsonl=out
    )


def test_a_script_alone(tmp_path: Path) -> None:
    text = "use own;\nlet more = event.n + args.more * own::seven;\nemit more;"
    assert not problems(
        tmp_path / "a",
        script_tremor=text,
        own_tremor="const seven = 7;",
        case_toml="args = {more = 2}",
        in_jsonl='{"n": 1}\n{}',
        out_jsonl="15",
        err_jsonl='{"error": "`event.n`: a record without `n`", "at": "script.tremor:2:12", "event": {}}',
    )
    ports = 'emit event => "left";'
    assert not problems(tmp_path / "b", script_tremor=ports, in_jsonl="1", left_jsonl="1")
    said = "script.tremor:2:3: error: unknown constant `y`\n"
    assert not problems(tmp_path / "c", script_tremor="1;\n  y", error_txt=said)
    assert problems(tmp_path / "d", script_tremor="event", in_jsonl="1", out_jsonl="1") == []


def test_what_is_refused(tmp_path: Path) -> None:
    text = "select evnt from in into out;"
    assert not problems(
        tmp_path / "a", pipeline_trickle=text, error_txt="pipeline.trickle:1:8: error: unknown constant `evnt`\n"
    )
    assert problems(tmp_path / "b", pipeline_trickle=PASS, error_txt="pipeline.trickle:1:8: error: no\n") == [
        "no error, and one is expected:",
        "  - pipeline.trickle:1:8: error: no",
    ]
    assert problems(tmp_path / "c", pipeline_trickle=text, in_jsonl="1") == [
        "error, and none is expected:",
        "  + pipeline.trickle:1:8: error: unknown constant `evnt`",
        "    = did you mean `event`?",
    ]


def test_what_is_warned_of(tmp_path: Path) -> None:
    text = f"create stream s; {PASS}"
    said = "pipeline.trickle:1:15: warning: nothing is selected from stream `s`\n"
    assert not problems(tmp_path / "a", pipeline_trickle=text, in_jsonl="")
    assert not problems(tmp_path / "a", pipeline_trickle=text, in_jsonl="", warning_txt=said)
    assert problems(tmp_path / "a", pipeline_trickle=text, in_jsonl="", warning_txt="") == [
        "warning, and none is expected:",
        f"  + {said}".rstrip(),
        "    = events selected into it end there, and count as delivered",
    ]


def test_a_flow_with_its_connectors_taken_away(tmp_path: Path) -> None:
    assert not problems(
        tmp_path / "a",
        flow_troy=FLOW,
        in_jsonl='{"n": 1}\n{}',
        written_jsonl="1",
        err_jsonl='{"error": "`event.n`: a record without `n`", "source": "main::p"}',
    )
    assert not problems(tmp_path / "b", flow_troy=FLOW, in_source_jsonl='{"n": 1}', written_jsonl="1")
    assert not list((tmp_path / "cwd").iterdir())


def test_a_log_within_a_flow_is_passed_through(tmp_path: Path) -> None:
    text = """
        define flow main
        flow
          use integration;
          define connector log from wal with config = {"path": "log", "read_count": 1} end;
          define pipeline a pipeline select event + 1 from in into out; end;
          define pipeline b pipeline select event * 10 from in into out; end;
          create connector source from integration::read_file with file = "in.json" end;
          create connector written from integration::write_file with file = "out.json" end;
          create connector log;
          create pipeline a;
          create pipeline b;
          connect /connector/source to /pipeline/a;
          connect /pipeline/a to /connector/log;
          connect /connector/log to /pipeline/b;
          connect /pipeline/b to /connector/written;
        end;
        deploy flow main;
        deploy flow second from main;
    """
    text = text.replace('"log"', "args.log").replace(
        "define flow main\n", 'define flow main args log = "a", out = "b"\n'
    )
    text = text.replace('"out.json"', "args.out").replace("from wal with", "from wal args log with")
    text = text.replace("create connector log;", "create connector log with log = args.log end;")
    text = text.replace("second from main;", 'second from main with log = "c", out = "d" end;')
    files = {"in_main.source_jsonl": "1\n2", "main.written_jsonl": "20\n30"}
    assert not problems(tmp_path / "a", flow_troy=text, **files)
    assert not list((tmp_path / "cwd").iterdir())


# Since Python 3.14 its own reader goes deeper than we do.
NESTED = "in.jsonl:1:1: " + (
    "not JSON that is supported: nested deeper than 512" if sys.version_info >= (3, 14) else "this nests too deep"
)
BAD = [
    ({"pipeline_trickle": PASS}, "CASE: a case has an input, `in.jsonl` say, or `error.txt` if it is refused"),
    ({"pipeline_trickle": PASS, "in_jsonl": '{"a": 1}\n{"a" 1}'}, "in.jsonl:2:6: expecting ':' delimiter"),
    ({"pipeline_trickle": PASS, "in_jsonl": "1 2"}, "in.jsonl:1:3: extra data"),
    ({"pipeline_trickle": PASS, "in_jsonl": "NaN"}, "in.jsonl:1:1: NaN is not JSON"),
    ({"pipeline_trickle": PASS, "in_jsonl": "[" * 600 + "]" * 600},
     "in.jsonl:1:1: not JSON that is supported: nested deeper than 512"),
    ({"pipeline_trickle": PASS, "in_jsonl": "[" * 60_000 + "]" * 60_000}, NESTED),
    ({"pipeline_trickle": PASS, "in_events_jsonl": '{"valeu": 1}'},
     "in.events.jsonl:1:1: Object contains unknown field `valeu`"),
    ({"pipeline_trickle": PASS, "in_events_jsonl": "1"}, "in.events.jsonl:1:1: Expected `object`, got `int`"),
    ({"pipeline_trickle": PASS, "in_events_jsonl": '{"value": 1, "port": "late"}'},
     "CASE: no input `late`; there is `in`"),
    ({"pipeline_trickle": PASS, "in_events_jsonl": '{"value": 1, "ingest_ns": 2}\n{"value": 1, "ingest_ns": 1}'},
     "in.events.jsonl:2: `ingest_ns` goes back, to 1"),
    ({"pipeline_trickle": PASS, "in_jsonl": "1", "in_events_jsonl": "{}"},
     "CASE: of `in.events.jsonl` and `in.jsonl` two are for the same port"),
    ({"pipeline_trickle": PASS, "in_jsonl": "1", "otu_jsonl": "1"},
     "otu.jsonl: no output `otu`; did you mean `out`?"),
    ({"pipeline_trickle": PASS, "in_jsonl": "1", "out_jsonl": "1", "out_events_jsonl": ""},
     "CASE: `out.events.jsonl` and `out.jsonl` are both about port `out`"),
    ({"pipeline_trickle": PASS, "in_jsonl": "1", "out_events_jsonl": "1"},
     "out.events.jsonl:1:1: a line here is a record of `value`, `meta`, `ingest_ns` and `stream`"),
    ({"pipeline_trickle": PASS, "error_txt": "x", "out_jsonl": "1"},
     "CASE: what `error.txt` says is refused never runs: take out `out.jsonl`"),
    ({"pipeline_trickle": PASS, "flow_troy": FLOW},
     "CASE: `pipeline.trickle` and `flow.troy` stand here: a case has one of them"),
    ({"flow_troy": "define flow main flow end; deploy flow main;", "in_jsonl": "1"},
     "CASE: no input `in`; it reads nothing"),
    ({"pipeline_trickle": PASS, "in_jsonl": "1", "case_toml": "tagss = []"},
     "case.toml: unknown key `tagss`; did you mean `tags`?"),
    ({"pipeline_trickle": PASS, "in_jsonl": "1", "case_toml": "least = 1"},
     ("case.toml: unknown key `least`; it takes `tags`, `args`, `start_ns` or `step_ns`; an arg of the "
"subject stands below `[args]`")),
    ({"pipeline_trickle": PASS, "in_jsonl": "1", "case_toml": "args = 3"}, "case.toml: `args`: a table, `[args]`"),
    ({"pipeline_trickle": PASS, "in_jsonl": "1", "case_toml": "tags = "},
     "case.toml: Invalid value (at end of document)"),
    ({"pipeline_trickle": PASS, "in_jsonl": "1", "case_toml": "args = {a = 2020-01-01}"},
     "case.toml: `args.a`: a date is no value of a flow"),
    ({"flow_troy": FLOW, "in_jsonl": "1", "case_toml": "args = {a = 1}"},
     "case.toml: a flow has its args behind `deploy`, take `args` out"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "said"), BAD, ids=[said[:40] for _, said in BAD])
def test_a_case_that_cannot_be_run_says_where(tmp_path: Path, files: dict[str, str], said: str) -> None:
    folder = tmp_path / "a"
    judged = judge(made(folder, **files))
    assert judged.bad
    assert [line.replace(f"{folder}/", "").replace(str(folder), "CASE") for line in judged.problems] == [said]


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({}, "give it a value in a/case.toml: `[args]`, then `least = …`"),
        ({"case_toml": "[args]\nleats = 1"}, "did you mean `leats`?"),
    ],
)
def test_an_arg_without_a_value_says_where_to_give_it(tmp_path: Path, settings: dict[str, str], hint: str) -> None:
    judged = judge(
        made(tmp_path / "a", script_tremor="event > args.least", in_jsonl="1", out_jsonl="true", **settings)
    )
    assert [line.replace(f"{tmp_path}/", "") for line in judged.problems] == [
        "error, and none is expected:",
        "  + script.tremor:1:14: error: unknown arg `least`",
        f"    = {hint}",
    ]


def test_cases_are_found_at_any_depth(tmp_path: Path) -> None:
    for folder in ("b/two", "b/one", "a", "_not", ".nor"):
        made(tmp_path / folder, pipeline_trickle=PASS, in_jsonl="1", out_jsonl="1")
    made(tmp_path / "typo", pipeline_tricle=PASS, in_jsonl="1")
    made(tmp_path / "else", README_md="no case")
    found = find([tmp_path, tmp_path / "b", tmp_path / "none"])
    assert [case.name for case in found.cases] == ["a", "b/one", "b/two"]
    assert [str(bad).replace(f"{tmp_path}/", "") for bad in found.bad.values()] == [
        "typo: `in.jsonl` without a file `pipeline.trickle`, `script.tremor` or `flow.troy`",
        "none: no such folder",
    ]


def test_update_writes_what_came(tmp_path: Path) -> None:
    text = "select 10 / event from in into out;"
    case = made(tmp_path / "a", pipeline_trickle=text, in_jsonl="5\n0\n4", out_jsonl="wrong")
    (case.folder / "out.jsonl").write_text("3\n")
    assert [path.name for path in update(case)] == ["err.jsonl", "out.jsonl"]
    again = Case(case.folder, "a")
    assert not judge(again).problems
    assert update(again) == []
    assert (case.folder / "out.jsonl").read_text() == "2.0\n2.5\n"
    error = '{"error": "division by zero", "at": "pipeline.trickle:1:8", "event": 0}\n'
    assert (case.folder / "err.jsonl").read_text() == error


def test_update_keeps_to_the_members_that_are_compared(tmp_path: Path) -> None:
    given = '{"value": 1, "meta": {"a": 1}, "ingest_ns": 5}'
    case = made(tmp_path / "a", pipeline_trickle=PASS, in_events_jsonl=given, out_events_jsonl='{"meta": {}}')
    update(case)
    assert (case.folder / "out.events.jsonl").read_text() == '{"meta": {"a": 1}}\n'


def test_update_leaves_to_a_person_what_is_to_be_refused(tmp_path: Path) -> None:
    text = "select evnt from in into out;"
    case = made(tmp_path / "a", pipeline_trickle=text, in_jsonl="1", out_jsonl="1\n")
    with pytest.raises(BadCase, match=r"this is refused now; take out `out.jsonl`"):
        update(case)
    case = made(tmp_path / "b", pipeline_trickle=PASS, error_txt="no\n")
    with pytest.raises(BadCase, match="this is not refused any more"):
        update(case)
    assert (case.folder / "error.txt").read_text() == "no\n"
    new = made(tmp_path / "c", pipeline_trickle=text, in_jsonl="1")
    assert [path.name for path in update(new)] == ["error.txt"]
    assert not judge(Case(new.folder, "c")).problems


def test_junit(tmp_path: Path) -> None:
    cases = [
        made(tmp_path / "fine", pipeline_trickle=PASS, in_jsonl="1", out_jsonl="1"),
        made(tmp_path / "wrong", pipeline_trickle=PASS, in_jsonl='"\x7f<"', out_jsonl="2"),
        made(tmp_path / "bad", pipeline_trickle=PASS),
    ]
    text = junit([Timed(judge(Case(case.folder, f"group/{case.name}")), 0.25) for case in cases]).decode()
    assert 'tests="3" failures="1" errors="1" skipped="0" time="0.750"' in text
    assert '<testcase classname="group" name="fine" time="0.2500" />' in text
    assert "\\x7f&lt;" in text
