"""A story: a flow, what its clients send, and what happens to the machine and to the peers. It is drawn from a seed,
and it is a value: what was found is kept as a story, not as a seed.

`teller` tells it. At its end all is well again, for two minutes of virtual time. Then it is judged (`judge`).
"""

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from tests.simulation.flows import BROKERS, DEAD, DOOR_PORTS, EXIT_PORTS, FAR, NEAR, Shape, changed, drawn
from walflow.testing.simulation.ends import Mood

PHASES: Final = ("checking", "leaving", "switching", "serving")  # of a handover
EVENTS: Final = 60  # of a client, at least
CLIENTS: Final = "clients"  # their host, where they speak TCP or HTTP
MOODS: Final[tuple[Mood, ...]] = ("away", "silent", "busy")
TROUBLES: Final = {
    *MOODS,
    "down",
    "lag",
    "drops",
    "reset",
    "slow",
    "hang",
    "fail",
}  # of which a request is sent twice


class Broken(AssertionError):
    """A promise was."""


class Step(NamedTuple):
    """`what`: one of `Teller`'s. `value`: seconds, or how much. `where`: a peer, or an operation of the disk."""

    what: str
    value: float = 0.0
    where: str = ""


class Story(NamedTuple):
    """`chance`: seeds what the steps do not say, such as how long a call of the disk takes. `poison`: events that a
    peer refuses for ever; `chokes`: events on which it fails a whole block, for ever. `pad`: bytes by which each
    event is larger. `then`: the flow after the step "change", or after a
    reload."""

    shape: Shape
    steps: tuple[Step, ...]
    chance: int = 0
    events: int = EVENTS
    poison: tuple[int, ...] = ()
    chokes: tuple[int, ...] = ()
    pad: int = 0
    then: Shape | None = None


def draw(seed: int) -> Story:
    dice = Random(seed)
    shape = drawn(dice)
    wired = [name for name in (NEAR, FAR) if shape.exit(name) in EXIT_PORTS or shape.exit(name) in ("spark", "kafka")]
    wired += [CLIENTS] * (shape.door in DOOR_PORTS or shape.door in BROKERS)
    steps: list[Step] = []
    for _ in range(dice.randint(1, 10)):
        steps.append(Step("wait", round(dice.expovariate(1.5), 3)))
        what = dice.choice(
            [
                "kill",
                "kill",
                "cut",
                "stop",
                "mood",
                "mood",
                "mood",
                "well",
                "slow",
                "hang",
                "full",
                "fail",
                "clock",
                "freeze",
                "reload",
            ]
            + ["second"] * shape.has_log
            + ["down", "reset", "lag", "drops"] * bool(wired)
        )
        match what:
            case "mood":
                steps.append(Step(dice.choice(MOODS), 0.0, dice.choice([NEAR, FAR] + [DEAD] * shape.err)))
            case "well":
                steps.append(Step("well", 0.0, dice.choice([NEAR, FAR])))
            case "slow":
                steps.append(Step("slow", dice.choice([10.0, 100.0, 1000.0])))
            case "hang":
                steps.append(Step("hang", 0.0, dice.choice(["sync", "read", "sync_directory"])))
            case "fail":
                steps.append(
                    Step("fail", dice.choice([50, 500]), dice.choice(["read", "allocate", "sync_directory"]))
                )
            case "full":
                steps.append(Step("full", dice.choice([0.0, 100.0, 3000.0])))
            case "down" | "reset":
                steps.append(Step(what, 0.0, dice.choice(wired)))
            case "lag":
                steps.append(Step("lag", dice.choice([0.01, 0.1, 1.0]), dice.choice(wired)))
            case "drops":
                steps.append(Step("drops", dice.choice([10, 200]), dice.choice(wired)))
            case "second":
                steps.append(Step("second", 0.0, dice.choice(["", "unlocked"])))
            case "freeze":
                steps.append(Step("freeze", dice.choice([0.1, 3.0, 40.0]), _which(steps, dice)))
            case "kill":
                steps.append(Step("kill", 0.0, _which(steps, dice)))
            case "reload":
                steps += [Step("reload"), _into_handover(dice)]
            case "clock":
                steps.append(Step("clock", dice.choice([-3600.0, -5.0, 5.0, 3600.0])))
            case _:
                steps.append(Step(what))
        if dice.random() < 0.4:
            steps += [Step("wait", round(dice.expovariate(1.0), 3)), Step("clear")]
    poison = tuple(dice.sample(range(EVENTS), dice.choice([0, 0, 0, 1, 5])))
    gives_up = shape.has_log and shape.attempts is not None
    chokes = tuple(dice.sample(range(EVENTS), 1)) if gives_up and dice.random() < 0.3 else ()
    then = None
    if dice.random() < 0.15:
        then = changed(shape, dice)
        change = dice.choice([Step("change"), Step("change", 0.0, "kill"), Step("reload", 0.0, "then")])
        steps.insert(dice.randrange(len(steps) + 1), change)
    events, pad = dice.choice([EVENTS, EVENTS, 300]), dice.choice([0, 0, 100, 1000])
    if shape.keeps_letters and not shape.err and (poison or chokes):
        _send_letters_again(steps, Random(f"letters {seed}"))  # the rest of the story is as it was without them
    return Story(shape, tuple(steps), seed, events, poison, chokes, pad, then)


def _send_letters_again(steps: list[Step], dice: Random) -> None:
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(steps) + 1)
        steps[at:at] = [Step("again"), Step("wait", round(dice.choice([0.001, 0.1, 1.0]) * dice.random(), 4))]


def _into_handover(dice: Random) -> Step:
    if dice.random() < 0.5:
        return Step("until", 0.0, dice.choice(PHASES))
    return Step("wait", round(dice.expovariate(1.0) * dice.choice([0.05, 5.0]), 4))


def _which(steps: list[Step], dice: Random) -> str:
    """Of the processes, while one takes over from another."""
    return dice.choice(["", "old", "new"]) if any(step.what == "reload" for step in steps[-4:]) else ""


ENDS: Final = ("kill", "cut", "stop", "freeze", "change", "second", "reload")
STATES: Final = ("slow", "hang", "full", "fail", *MOODS, "down", "lag", "drops")


def moments(story: Story) -> Iterator[str]:
    """What happened to the process, and what else was wrong just then."""
    states: dict[str, None] = {}
    for step in story.steps:
        if step.what in STATES:
            states[step.what] = None
        elif step.what == "clear":
            states.clear()
        elif step.what in ENDS:
            yield from (f"{step.what} while {state}" for state in states)
