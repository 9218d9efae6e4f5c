"""HTTP to a log to Kafka to two members of a group, and kills all along: of the broker, of the daemon that produces,
of those that consume, and members that come and go. `python -m tests.broker.kills` makes the recorded run.

The ledger has what the HTTP server has answered: that is in the log. All of it must be in the members' files in the
end. `--log` makes the same with the log alone: HTTP to a log to a file, and kills of that one daemon.
"""

import http.client
import itertools
import json
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from demo.server import free_port, write_flow
from tests.broker.kafka import KafkaBroker, kafka
from tests.connectors.kafka_world import messages_of
from tests.system.daemon import ROOT, Daemon
from tests.waiting import PATIENCE, wait_until

FLOWS: Final = ROOT / "flows" / "doors"
TOPIC: Final = "events"
POSTERS: Final = 2
AT_A_TIME: Final = 20  # events of a poster before it rests
MODE: Final = '"mode": {"transactional": {"commit_interval": 1000000000}},'
# a dead member is missed after 45 s by default, and a run has many
SOON: Final = '"mode": {"custom": {"rdkafka_options": {"session.timeout.ms": 3000, "heartbeat.interval.ms": 500}}},'


class Proof(NamedTuple):
    """`in_topic`: messages. `in_files`: lines of all members. `missing`: of what was answered, in no file."""

    answered: int
    in_topic: int
    in_files: int
    missing: int
    twice_in_topic: int
    twice_in_files: int
    kills: Counter[str]

    @property
    def holds(self) -> bool:
        return not self.missing

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({kinds}): {self.answered} events answered, {self.missing} missing; "
            f"{self.in_topic} messages in the topic, {self.twice_in_topic} of them repeats; {self.in_files} lines in "
            f"the files, {self.twice_in_files} of them repeats of a message"
        )


class Poster(threading.Thread):
    """Posts numbered events until it is stopped. `answered`: those that are in the log."""

    def __init__(self, number: int, port: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.answered: list[int] = []
        self._numbers = itertools.count(number, POSTERS)
        self._port = port
        self._stop_now = stop

    def run(self) -> None:
        while not self._stop_now.wait(0.05):
            with suppress(OSError, http.client.HTTPException):
                self._post_some()

    def _post_some(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            for number in itertools.islice(self._numbers, AT_A_TIME):
                connection.request("POST", "/", json.dumps({"host": f"h{number % 7}", "n": number}))
                answer = connection.getresponse()
                answer.read()
                if answer.status < 300:
                    self.answered.append(number)
        finally:
            connection.close()


class ArrivedLines:
    """What stands in files that grow, each line read once."""

    def __init__(self, files: Callable[[], Sequence[Path]]) -> None:
        self.lines: list[dict[str, object]] = []
        self._files = files
        self._read: Counter[Path] = Counter()  # bytes

    def look(self) -> Sequence[dict[str, object]]:
        """The new ones."""
        new: list[dict[str, object]] = []
        for path in self._files():
            with path.open("rb") as file:
                file.seek(self._read[path])
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] += len(whole) + len(newline)
            new += map(json.loads, whole.splitlines())
        self.lines += new
        return new


class Pipeline:
    """A broker, a producing daemon, and members. Each of them can be killed."""

    def __init__(self, directory: Path, broker: KafkaBroker) -> None:
        self.directory = directory
        self.port = free_port()
        self._broker = broker
        self._producer_dir = self._made("producer")
        args = {"listen": f"127.0.0.1:{self.port}", "broker": broker.address, "topic": TOPIC}
        self._out_flow = write_flow(self._producer_dir, FLOWS / "kafka-out.troy", args)
        self._in_flow = write_flow(
            self._made("flow"), FLOWS / "kafka-in.troy", {"broker": broker.address, "topic": TOPIC}
        )
        text = self._in_flow.read_text()
        assert MODE in text
        self._in_flow.write_text(text.replace(MODE, SOON))
        self._producer = Daemon(self._out_flow, self._producer_dir)
        self._members: dict[int, Daemon] = {}
        self._arrived = ArrivedLines(lambda: sorted(self.directory.glob("member*/out.jsonl")))
        self._numbers: set[int] = set()
        self.start_member(0)

    def _made(self, name: str) -> Path:
        (self.directory / name).mkdir(exist_ok=True)
        return self.directory / name

    def start_member(self, number: int) -> None:
        self._members[number] = Daemon(self._in_flow, self._made(f"member{number}"))

    # what may happen

    def kill_broker(self) -> None:
        self._broker.end(signal.SIGKILL)
        self._broker.start()

    def kill_producer(self) -> None:
        self._producer.kill()
        self._producer = Daemon(self._out_flow, self._producer_dir)

    def kill_member(self) -> None:
        number = max(self._members)
        self._members[number].kill()
        self.start_member(number)

    def rebalance(self) -> None:
        """The second member comes, or leaves while it has events."""
        second = self._members.pop(1, None)
        if second is None:
            self.start_member(1)
        else:
            second.wait_for("running")
            second.terminate()

    @property
    def kinds(self) -> Mapping[str, Callable[[], None]]:
        return {
            "of the broker": self.kill_broker,
            "of the producer": self.kill_producer,
            "of a consumer": self.kill_member,
            "rebalances": self.rebalance,
        }

    # what there is

    def numbers(self) -> set[int]:
        self._numbers.update(line["event"]["n"] for line in self._arrived.look())  # type: ignore[index]  # as kafka-in.troy writes them
        return self._numbers

    def proof(self, answered: set[int], done: Counter[str]) -> Proof:
        self._arrived.look()
        lines = self._arrived.lines
        messages = {(line["partition"], line["offset"]) for line in lines}
        in_topic = messages_of(self._broker.address, TOPIC, len(messages))
        repeats = len(in_topic) - len({message.value() for message in in_topic})
        missing = len(answered - self.numbers())
        return Proof(len(answered), len(in_topic), len(lines), missing, repeats, len(lines) - len(messages), done)

    def close(self) -> None:
        for daemon in (self._producer, *self._members.values()):
            daemon.close()


class LogAlone:
    """One daemon, and no broker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._flow = write_flow(directory, FLOWS / "http.troy", {"listen": f"127.0.0.1:{self.port}"})
        self._daemon = Daemon(self._flow, directory)
        self._arrived = ArrivedLines(lambda: list(directory.glob("out.jsonl")))
        self._numbers: set[int] = set()

    def kill_daemon(self) -> None:
        self._daemon.kill()
        self._daemon = Daemon(self._flow, self.directory)

    @property
    def kinds(self) -> Mapping[str, Callable[[], None]]:
        return {"of the daemon": self.kill_daemon}

    def numbers(self) -> set[int]:
        self._numbers.update(event["n"] for event in self._arrived.look())  # type: ignore[misc]  # as posted
        return self._numbers

    def proof(self, answered: set[int], done: Counter[str]) -> Proof:
        numbers = self.numbers()
        lines = self._arrived.lines
        return Proof(len(answered), 0, len(lines), len(answered - numbers), 0, len(lines) - len(numbers), done)

    def close(self) -> None:
        self._daemon.close()


def run(directory: Path, kills: int, tell: Callable[[str], None], seed: int = 7, *, log: bool = False) -> Proof:
    dice = random.Random(seed)
    with ExitStack() as stack:
        pipeline = LogAlone(directory) if log else Pipeline(directory, stack.enter_context(kafka(directory)))
        stack.callback(pipeline.close)
        stop = threading.Event()
        posters = [Poster(number, pipeline.port, stop) for number in range(POSTERS)]
        stack.callback(stop.set)
        for poster in posters:
            poster.start()
        kinds = pipeline.kinds
        done: Counter[str] = Counter()
        turns: list[str] = []
        for _ in range(kills):
            goal = len(pipeline.numbers()) + dice.randrange(1, 200)
            wait_until(lambda goal=goal: len(pipeline.numbers()) >= goal, "no event arrives any more")  # type: ignore[misc]  # bound at once
            turns = turns or dice.sample(sorted(kinds), len(kinds))
            kind = turns.pop()
            kinds[kind]()
            done[kind] += 1
            tell(f"{done.total():3} {kind}: {len(pipeline.numbers())} events have arrived")
        stop.set()
        for poster in posters:
            poster.join(PATIENCE)
        answered = {number for poster in posters for number in poster.answered}
        wait_until(lambda: answered <= pipeline.numbers(), "events are missing")
        return pipeline.proof(answered, done)


def main(
    kills: Annotated[int, typer.Option(min=1)] = 30,
    seed: int = 7,
    log: Annotated[bool, typer.Option("--log", help="Without Kafka: the log alone.")] = False,
) -> None:
    started = time.monotonic()

    def tell(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - started:6.0f} s {text}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as directory:
        proof = run(Path(directory), kills, tell, seed, log=log)
        size = sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())
    tell(str(proof))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (used.ru_utime + used.ru_stime) / proof.answered * 1000
    tell(
        f"all processes: {cpu:.2f} s of processor per 1,000 events, {used.ru_maxrss >> 10} MB in the "
        f"largest, {size >> 20} MB on disk"
    )
    raise typer.Exit(0 if proof.holds else 1)


if __name__ == "__main__":
    typer.run(main)
