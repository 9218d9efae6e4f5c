"""`walflow doc err`: where an event can end."""

from typing import Final, NamedTuple


class End(NamedTuple):
    """`metric`: the counter of it."""

    outcome: str
    means: str
    metric: str


ENDS: Final = (
    End("acked", "the sink has the event", "acked_events_total"),
    End(
        "rejected",
        "delivery can never succeed; its error record is acked by what `err` leads to",
        "rejected_events_total",
    ),
    End(
        "rejected, and kept",
        "nothing is linked to `err`, and the log before the sink has it: `walflow letters`",
        "wal_letters_kept_total",
    ),
    End("a letter given up", "it was too many, too old, or the disk was full", "wal_letters_given_up_total"),
    End("rejected, no link from `err`", "the reason is logged; the event is dropped", "rejected_events_total"),
    End("filtered", "no select of a pipeline took it", "filtered_events_total"),
    End("at a port without a link", "dropped; `walflow check` warns", "dropped_events_total"),
    End("given up by age", '`"overflow": "drop_oldest"` of a log that is full', "wal_dropped_events_total"),
    End(
        "given up as damage",
        "the disk has other bytes than were written; a copy is in quarantine/",
        "quarantined_events_total",
    ),
    End("lost", "a sink failed it, and its source cannot send it again: put a log between", "lost_events_total"),
)

TEXT: Final = """\
Where an event can end. For each sink that its way leads to, an event has one of these outcomes within a run, and \
its counter:

{ends}
`walflow wal skip` gives an event up by hand; its record is in quarantine/. So does `walflow letters drop`.

A rejected event leaves by the `err` port of the connector, or of the pipeline, as a record on one line:
  error, source, stream_id   why, which connector or pipeline, which connection
  at                         the place in a flow file, if a script or a select has rejected it
  sink, cause, position,     after `max_attempts`: the sink that failed it, the last failure, the position in the log,
  attempts                   and how many failures counted
  event, text or bytes       the event, or its bytes if it is none

A failure is no outcome: the event is sent again, alone. `walflow status --stuck` shows what has failed and waits.
A record that fails is sent again too; the sink that rejected the event is not asked a second time.
A record that is rejected itself is dropped and counted."""


def text() -> str:
    from walflow.metrics import exposed

    wide = max(len(end.outcome) for end in ENDS)
    lines = [f"  {end.outcome.ljust(wide)}  {end.means}\n  {' ' * wide}  {exposed(end.metric)}" for end in ENDS]
    return TEXT.format(ends="\n".join(lines) + "\n")
