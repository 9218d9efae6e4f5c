"""For each fault the story that looks for it: what must happen so that it can be seen, and nothing else.

Decision 0054 says why some faults have none.
"""

from collections.abc import Mapping
from typing import Final

from tests.simulation.flows import FAR, NEAR, Shape
from tests.simulation.story import CLIENTS, Step, Story

RUNS: Final = 20  # of a story, each with another chance, within which it finds its fault
MANY: Final = 300  # events: more than one life has time for

LOG: Final = Shape(("apart",), "all", err=False)
LETTERS: Final = LOG._replace(err=True, attempts=3)
KEPT: Final = LOG._replace(attempts=3)
HASTY: Final = LOG._replace(err=True, attempts=1)
NO_LOG: Final = LOG._replace(between=())
SMALL: Final = LETTERS._replace(chunk=4096, chunks=4)


def again(*steps: Step, times: int = 4) -> tuple[Step, ...]:
    return (Step("wait", 0.4), *steps) * times


def troubled(mood: str, peer: str = NEAR, seconds: float = 2.0) -> tuple[Step, ...]:
    return Step("wait", 0.3), Step(mood, 0.0, peer), Step("wait", seconds)


SENT_AGAIN: Final = (Step("wait", 2.0), Step("again"), Step("wait", 2.0), Step("again"))
KILLS: Final = again(Step("kill"))
CUTS: Final = again(Step("cut"))
LOST_ACKS: Final = (Step("lag", 0.1, CLIENTS), *again(Step("reset", 0.0, CLIENTS)))
LOST_ANSWERS: Final = again(Step("reset", 0.0, NEAR))
BUSY: Final = troubled("busy")
FOLLOWS: Final = LOG._replace(door="follow")

RELOADS: Final = again(Step("reload"), Step("wait", 6.0))

DIRECTED: Final[Mapping[str, Story]] = {
    "a process writes checkpoints while the one before may go on": Story(
        LOG,
        (
            *(Step("away", 0.0, FAR), Step("wait", 0.3), Step("reload", 0.0, "then"), Step("until", 0.0, "serving")),
            *(Step("wait", 2.0), Step("kill", 0.0, "new"), Step("wait", 1.0), Step("clear")),
        ),
        events=MANY,
        then=LOG._replace(far=False),
    ),
    "a lock is not handed on": Story(
        LOG,
        (Step("slow", 100.0), *again(Step("reload"), Step("until", 0.0, "switching"), Step("second"))),
        events=MANY,
    ),
    "what came of the next event is not handed on": Story(LOG._replace(door="tcp"), RELOADS, events=MANY, pad=20_000),
    "connections are not handed on": Story(LOG._replace(door="tcp"), RELOADS, events=MANY),
    "a process goes on beside the one that was to take over": Story(
        LOG,
        (Step("slow", 100.0), *again(Step("reload"), Step("until", 0.0, "switching"), Step("freeze", 32.0, "new"))),
        events=MANY,
    ),
    "a process that leaves forgets a signal": Story(
        LOG, again(Step("reload"), Step("until", 0.0, "leaving"), Step("stop"))
    ),
    "an answer of 5xx counts as taken": Story(LOG._replace(exits=("http", "story")), BUSY),
    "an event counts as echoed once it is written": Story(LOG._replace(exits=("tcp", "story")), LOST_ANSWERS),
    "what a lost connection had counts as delivered": Story(LOG._replace(exits=("tcp", "story")), LOST_ANSWERS),
    "a request is answered before it has an outcome": Story(
        LOG._replace(door="http"), (Step("slow", 100.0), *KILLS), events=MANY
    ),
    "no Idempotency-Key is known": Story(LOG._replace(door="http"), LOST_ACKS, events=MANY),
    "a server acks what it does not write": Story(LOG._replace(door="tcp"), ()),
    "a file is not synced": Story(LOG._replace(exits=("file", "story")), CUTS, events=MANY),
    "a file does not know what it has": Story(LOG._replace(exits=("file", "story")), KILLS, events=MANY),
    "a file's place is stored before its acks": Story(
        FOLLOWS._replace(between=()), (*troubled("silent", seconds=3.0), Step("kill")), events=MANY
    ),
    "a file that was cut is read on": Story(FOLLOWS, (), events=MANY),
    "a copy of a file is another file": Story(FOLLOWS._replace(exits=("file", "story")), (), events=MANY),
    "what was sent of a file is not known": Story(
        FOLLOWS._replace(exits=("file", "story")), again(Step("wait", 0.4), Step("kill")), events=MANY
    ),
    "a file that was renamed is not read to its end": Story(FOLLOWS, (), events=MANY),
    "no tick closes a window": Story(LOG._replace(pipeline="window"), ()),
    "what Spark has not committed is deleted": Story(LOG._replace(exits=("spark", "story")), (), events=MANY),
    "Spark gets one event less": Story(LOG._replace(exits=("spark", "story")), ()),
    "the frontier in a table is not read": Story(LOG._replace(exits=("table", "story")), KILLS, events=MANY),
    "no lock is asked for": Story(LOG, (Step("wait", 0.3), Step("second"))),
    "no key is remembered": Story(LOG._replace(pipeline="dedupe", door="tcp"), LOST_ACKS, events=MANY),
    "a batch joins what comes again": Story(
        LETTERS._replace(pipeline="batch", exits=("tcp", "story")), (), events=MANY, chokes=(20, 40)
    ),
    "a round robin keeps what all have failed": Story(
        HASTY._replace(pipeline="robin", exits=("http", "http")), (), events=MANY, chokes=(20,)
    ),
    "nothing holds a log up": Story(SMALL, (), chokes=(3, 4), pad=3000),
    "an event that fills a log alone never counts": Story(SMALL, (), events=40, chokes=(3,), pad=3000),
    "newer events wait for a few that failed": Story(SMALL, (), chokes=(3, 4), pad=3000),
    "a first failure counts": Story(
        HASTY, again(Step("busy", 0.0, NEAR), Step("wait", 0.2), Step("well", 0.0, NEAR), times=8), events=MANY
    ),
    "a commit is not synced": Story(LOG, (Step("away", 0.0, FAR), *CUTS), events=MANY),
    "names are not synced": Story(LOG, (Step("away", 0.0, FAR), *CUTS), events=MANY),
    "a commit is not written": Story(LOG, (Step("away", 0.0, FAR), *KILLS), events=MANY),
    "an event is acked as the log takes it": Story(LOG, (Step("slow", 100.0), *CUTS), events=MANY),
    "what a full disk did not take counts as written": Story(
        LOG._replace(chunk=16384),
        (Step("away", 0.0, FAR), *again(Step("full"), Step("wait", 0.3), Step("kill"))),
        pad=1000,
    ),
    "a start goes on behind all that is there": Story(LOG, (*troubled("silent"), *KILLS)),
    "a lane acks one event more": Story(LOG, again(Step("away", 0.0, FAR), Step("wait", 0.2), Step("kill"))),
    "a fail counts as an ack": Story(LOG, BUSY),
    "a part that failed counts as acked in its whole": Story(LOG._replace(pipeline="batch"), BUSY),
    "what failed is forgotten": Story(LOG, BUSY),
    "no timer is set for what failed": Story(
        SMALL._replace(attempts=1, exits=("story", "http")), (), chokes=(46,), pad=1000
    ),
    "an attempt counts in an outage": Story(HASTY, BUSY),
    "no attempt ever counts": Story(LETTERS, (), chokes=(7,)),
    "an outage is never over": Story(LETTERS, (), events=5, chokes=(4,)),
    "a rejected event is acked without a letter": Story(LETTERS, (), poison=(7,)),
    "no letter is kept": Story(KEPT, (), poison=(7,)),
    "what is given up is no letter": Story(KEPT, (), chokes=(7,)),
    "a letter that went stays one": Story(KEPT, SENT_AGAIN, poison=(7,)),
    "what goes again is lost": Story(KEPT, SENT_AGAIN, poison=(7,)),
    "a breaker stays shut": Story(LOG, troubled("away")),
    "a sink's breaker opens no gate": Story(NO_LOG, troubled("away")),
    "a window stays shut": Story(NO_LOG, (Step("silent", 0.0, NEAR), Step("wait", 2.0)), pad=300_000),
    "a job's error is lost": Story(
        LOG._replace(door="tcp"), (Step("wait", 0.9), Step("full", 100.0), Step("wait", 2.4)), events=MANY, pad=100
    ),
    "a message of MQTT that is refused counts as published": Story(
        LETTERS._replace(exits=("mqtt two", "story")), (), poison=(7,)
    ),
    "a message of MQTT is acked as it comes": Story(NO_LOG._replace(door="mqtt"), (*troubled("silent"), *KILLS)),
    "what MQTT has not answered is not sent again": Story(LOG._replace(exits=("mqtt", "story")), LOST_ANSWERS),
    "an offset of Kafka is stored as its message is read": Story(
        NO_LOG._replace(door="kafka"),
        (Step("wait", 6.0), Step("silent", 0.0, NEAR), Step("wait", 8.0), Step("kill")),
        events=MANY,
    ),
    "a message that Kafka refuses counts as taken": Story(
        LETTERS._replace(exits=("kafka", "story")), (), poison=(7,)
    ),
    "a sink of messages never asks for others": Story(LETTERS._replace(exits=("kafka", "story")), (), chokes=(7,)),
    "bad messages count as others for each other": Story(
        LETTERS._replace(exits=("kafka", "story"), clients=2), (), chokes=(33,)
    ),
    "what one output of a round robin failed is settled": Story(LOG._replace(pipeline="robin"), BUSY),
}
