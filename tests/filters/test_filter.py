"""A script or a pipeline between two files: where reads end changes nothing, and each mistake has its place."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

import pytest

from tests.examples import shared
from walflow import framing
from walflow.codecs import JSON, STRING
from walflow.compile.nodes import Expr, Literal
from walflow.diagnostics import Source, Span
from walflow.filters import Complaints, Filter, Wires
from walflow.filters.complaints import SHOWN
from walflow.filters.filter import READ_BYTES
from walflow.framing import LINES, Incoming, Outgoing
from walflow.plan.alone import load_definition, load_query, load_script

LINE_WIRES = Wires(JSON, Incoming((), LINES), JSON, Outgoing((), LINES))


class Ran:
    """What a filter made of an input that came in pieces."""

    def __init__(
        self,
        name: str,
        text: str,
        pieces: Sequence[bytes],
        *,
        wires: Wires = LINE_WIRES,
        ports: Sequence[str] = ("out",),
        args: Mapping[str, Expr] | None = None,
        flushes: bool = False,
    ) -> None:
        source = Source(name, text)
        if name.endswith(".troy"):
            alone, found = load_definition(source, None, args or {}, "run")
        else:
            load = load_script if name.endswith(".tremor") else load_query
            alone, found = load(source, args or {}, "run")
        assert alone is not None, found
        self.written = b""
        self.said: list[str] = []
        complaints = Complaints(alone.assembly, self.said.append)
        filter = Filter(alone, wires, "in", ports, self._write, complaints, "in.json", flushes=flushes)
        for piece in pieces:
            filter.feed(piece)
        filter.end()
        complaints.end()
        self.unwritten = filter.unwritten
        self.rejected = complaints.count

    def _write(self, data: bytes) -> None:
        self.written += data


SCRIPT = """\
let event.twice = event.n * 2;
match event of
  case %{n == 3} => drop
  case %{n == 4} => emit => "four"
  default => event
end
"""


@pytest.mark.parametrize("seed", shared(range(20)))
def test_where_a_read_ends_changes_nothing(seed: int) -> None:
    chance = Random(seed)
    lines = [f'{{"n":{n % 7}}}' if n % 5 else "wrong" for n in range(200)]
    data = "\n".join(lines).encode()
    ends = sorted({0, len(data), *(chance.randrange(len(data)) for _ in range(chance.randrange(30)))})
    pieces = [data[begin:end] for begin, end in pairwise(ends)]
    ran, whole = Ran("s.tremor", SCRIPT, pieces), Ran("s.tremor", SCRIPT, [data])
    assert (ran.written, ran.said, ran.unwritten) == (whole.written, whole.said, whole.unwritten)
    assert ran.rejected == 40
    assert ran.written.startswith(b'{"n":1,"twice":2}\n{"n":2,"twice":4}\n')


def test_an_error_shows_its_place_and_the_event() -> None:
    ran = Ran("s.tremor", SCRIPT, [b'{"n":1}\n{"m":2}\n'])
    assert ran.written == b'{"n":1,"twice":2}\n'
    [said] = ran.said
    assert said.splitlines() == [
        "s.tremor:1:19: error: `event.n`: a record without `n`",
        "    1 | let event.twice = event.n * 2;",
        "      |                   ^^^^^^^",
        '      = event: {"m":2}',
    ]
    assert ran.rejected == 1


def test_what_is_no_event_has_the_number_of_its_line() -> None:
    ran = Ran("s.tremor", "event", [b'1\n\n{"a"', b":1}\n  \nno\n2\nn", b"o\n1\nno\n"])
    assert ran.written == b'1\n{"a":1}\n2\n1\n'
    assert [said.splitlines()[0] for said in ran.said] == [
        f"in.json:{line}: error: not JSON: no value at column 1" for line in (5, 7, 9)
    ]


def test_lines_are_counted_behind_one_that_is_longer_than_many_reads() -> None:
    long = b'"' + b"x" * (3 * READ_BYTES) + b'"\n'
    pieces = [long[at : at + READ_BYTES] for at in range(0, len(long), READ_BYTES)]
    ran = Ran("s.tremor", "event", [b"1\n", *pieces, b"2\nno\n"])
    assert ran.written == b"1\n" + long + b"2\n"
    assert ran.said[0].startswith("in.json:4: error: ")


def test_of_many_errors_the_first_are_shown() -> None:
    ran = Ran("s.tremor", "event.a", [b"{}\n" * 25])
    assert len(ran.said) == SHOWN + 1
    assert ran.said[-1] == "walflow: 25 events were rejected; 15 of them are not shown"


def test_a_long_event_is_shown_in_part() -> None:
    ran = Ran("s.tremor", "event.a", [b'{"b":"%s"}\n' % (b"x" * 10_000)])
    assert ran.said[0].endswith("xxx… (10,008 characters)")


def test_ports_that_are_not_written_are_counted() -> None:
    data = b'{"n":4}\n{"n":1}\n{"n":4}\n'
    assert Ran("s.tremor", SCRIPT, [data]).unwritten == {"four": 2}
    both = Ran("s.tremor", SCRIPT, [data], ports=("four",))
    assert both.written == b'{"n":4,"twice":8}\n' * 2
    assert both.unwritten == {"out": 1}


WINDOW = """\
define window two from tumbling with size = 2 end;
select aggr::stats::sum(event) from in[two] into out;
"""


def test_an_open_window_is_closed_at_the_end_only_if_it_is_told_to() -> None:
    pieces = [b"1\n2\n", b"3\n"]
    assert Ran("w.trickle", WINDOW, pieces).written == b"3.0\n"
    assert Ran("w.trickle", WINDOW, pieces, flushes=True).written == b"3.0\n3.0\n"


def test_a_pipeline_with_an_operator_gives_what_it_holds_at_the_end() -> None:
    text = """
define operator batch from generic::batch with count = 2 end;
create operator batch;
select event from in into batch;
select event from batch into out;
select {"wrong": event} from in where event == 3 into err;
"""
    ran = Ran("p.trickle", text, [b"1\n2\n3\n"])
    assert ran.written == b"1\n2\n3\n"
    assert ran.unwritten == {"err": 1}


def test_a_log_within_is_passed() -> None:
    text = """
define operator log from qos::wal with read_count = 20, max_elements = 10 end;
create operator log;
select event from in into log;
select event + 1 from log into out;
"""
    assert Ran("p.trickle", text, [b"1\n2\n"]).written == b"2\n3\n"


def test_a_pipeline_of_a_flow_file_with_args() -> None:
    text = """
define flow main
flow
  define pipeline add args by pipeline select event + args.by from in into out; end;
end;
"""
    five = Literal(5, Span(Source("--set", "by=5"), 0, 4))
    assert Ran("flow.troy", text, [b"1\n"], args={"by": five}).written == b"6\n"


def test_other_codecs_and_framings() -> None:
    wires = Wires(
        STRING,
        framing.incoming([("separate", {"separator": "|"})]),
        JSON,
        framing.outgoing([("length-prefixed", {})]),
    )
    assert Ran("s.tremor", "event", [b"a|b"], wires=wires).written == b'\0\0\0\0\0\0\0\x03"a"\0\0\0\0\0\0\0\x03"b"'


def test_an_event_that_the_output_cannot_hold_is_rejected() -> None:
    ran = Ran("s.tremor", "<< event.n/binary >>", [b'{"n":"a"}\n'])
    assert ran.written == b""
    assert len(ran.said) == 1
    assert ran.rejected == 1
