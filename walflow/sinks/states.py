"""The states of every sink, in one table. The page docs/decisions/0049 shows it, and a test compares the two.

A `JobSink` begins in DUE, because its first job may open a file. A `PeerSink` begins in AWAY.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final


class SinkState(Enum):
    AWAY = "there is no connection yet, or it was lost: blocks are held"
    IDLE = "nothing is to be done"
    DUE = "something is, in the next turn of the loop; what else comes in this one joins it"
    WORKING = "a job is on its thread, or `send` is being called: a block that comes meanwhile waits"
    HELD = "nothing can be delivered now; a timer runs"
    LOST = "nothing can be delivered in this run any more"
    STOPPING = "the last job is on its thread"
    STOPPED = "nothing is begun any more"
    CLOSED = "each block fails at once"

    __hash__ = object.__hash__  # an Enum's own is written in Python


class SinkEvent(Enum):
    WAKE = "there is something to do"
    BEGIN = "a job, or `send`, begins"
    REST = "there was nothing to do, or the peer takes no more for now"
    DONE = "the job has ended well"
    TROUBLE = "it failed, and may succeed later"
    BUG = "it failed as it never should"
    RETRY = "the timer has run out, or SIGHUP ended the wait"
    CONNECTED = "there is a connection"
    GONE = "the connection has ended, or a next one could not be made"
    GIVE_UP = "there will be no other try in this run"
    STOP = "the run is to end"
    CLOSE = "it has ended"

    __hash__ = object.__hash__


AWAY, IDLE, DUE, WORKING, HELD, LOST, STOPPING, STOPPED, CLOSED = SinkState
WAKE, BEGIN, REST, DONE, TROUBLE, BUG, RETRY, CONNECTED, GONE, GIVE_UP, STOP, CLOSE = SinkEvent

TRANSITIONS: Final[Mapping[SinkState, Mapping[SinkEvent, SinkState]]] = {
    AWAY: {CONNECTED: DUE, GONE: AWAY, STOP: STOPPED},
    IDLE: {WAKE: DUE, TROUBLE: HELD, GONE: AWAY, GIVE_UP: LOST, STOP: STOPPED},
    DUE: {BEGIN: WORKING, REST: IDLE, TROUBLE: HELD, GONE: AWAY, GIVE_UP: LOST, STOP: STOPPED},
    WORKING: {
        DONE: DUE,
        REST: IDLE,
        TROUBLE: HELD,
        BUG: STOPPED,
        GONE: AWAY,
        GIVE_UP: LOST,
        STOP: STOPPING,
    },
    HELD: {RETRY: DUE, GONE: AWAY, STOP: STOPPED},
    LOST: {STOP: STOPPED},
    STOPPING: {DONE: STOPPED, TROUBLE: STOPPED, BUG: STOPPED, GIVE_UP: STOPPED, CLOSE: CLOSED},
    STOPPED: {GONE: STOPPED, STOP: STOPPED, CLOSE: CLOSED},
    CLOSED: {DONE: CLOSED, TROUBLE: CLOSED, BUG: CLOSED, GONE: CLOSED, GIVE_UP: CLOSED, STOP: CLOSED, CLOSE: CLOSED},
}


def drawn() -> Iterator[str]:
    """The table, as lines of Markdown."""
    yield "| state | what it means | what may happen, and the next state |"
    yield "|---|---|---|"
    for state, moves in TRANSITIONS.items():
        after = ", ".join(f"{event.name.lower()} → {then.name.lower()}" for event, then in moves.items())
        yield f"| {state.name.lower()} | {state.value} | {after} |"
    yield ""
    yield "| event | what it means |"
    yield "|---|---|"
    for event in SinkEvent:
        yield f"| {event.name.lower()} | {event.value} |"


if __name__ == "__main__":
    print("\n".join(drawn()))  # noqa: T201  # for the page
