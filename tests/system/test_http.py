"""flows/doors/http.troy as its users meet it: curl, certificates, and kill -9 under load."""

import http.client
import json
import random
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.flows.builder import ANY_PORT, flow_of, plain
from tests.system.certificates import Authority
from tests.system.daemon import ROOT, WALFLOW, Daemon, free_port, running
from tests.system.warm import ran
from tests.waiting import PATIENCE, wait_until

KILLS = 5
SENDERS = 6


def door(directory: Path, port: int = 0, **config: Any) -> Path:
    """flows/doors/http.troy with these keys as well."""
    text = (ROOT / "flows/doors/http.troy").read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    keys = "".join(f'      "{key}": {json.dumps(value)},\n' for key, value in config.items())
    flow = directory / "http.troy"
    flow.write_text(text.replace('      "url": args.url,\n', f'      "url": args.url,\n{keys}'))
    return flow


def curl(*arguments: str, stdin: bytes = b"") -> tuple[int, str]:
    """The status, and the body."""
    command = ["curl", "-s", "--max-time", str(PATIENCE), "-w", "\n%{http_code}", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    body, _, status = done.stdout.decode().rpartition("\n")
    return int(status), body


def test_curl(tmp_path: Path) -> None:
    lines = tmp_path / "events.ndjson"
    lines.write_text("".join(f'{{"n":{n}}}\n' for n in range(50_000)))
    with running(door(tmp_path), tmp_path) as daemon:
        url = f"http://127.0.0.1:{daemon.port()}/orders?from=curl"
        assert curl("-d", '{"n":"one"}', url) == (200, '{"events":1}\n')
        ndjson = ["-H", "Content-Type: application/x-ndjson"]
        assert curl("--data-binary", f"@{lines}", *ndjson, url) == (200, '{"events":50000}\n')
        assert curl("-T", str(lines), "-H", "Transfer-Encoding: chunked", *ndjson, url)[0] == 200
        status, body = curl("--data-binary", "@-", *ndjson, url, stdin=b'{"n":1}\n{"n":\n')
        assert (status, json.loads(body)["refused"][0]["line"]) == (400, 2)
        out = tmp_path / "out.jsonl"
        wait_until(lambda: out.exists() and out.read_bytes().count(b"\n") == 100_001)
        assert daemon.terminate() == 0, daemon.raw


def test_tls_and_client_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.issue("localhost") | {"client_ca": authority.file, "client_names": ["edge-1"]}
    with running(door(tmp_path, tls=tls), tmp_path) as daemon:
        url = f"https://localhost:{daemon.port()}/"
        known, other = authority.issue("edge-1"), authority.issue("edge-2")
        trust = ["--cacert", authority.file, "--resolve", f"localhost:{url.split(':')[2][:-1]}:127.0.0.1"]
        assert curl(*trust, "--cert", known["cert"], "--key", known["key"], "-d", "1", url)[0] == 200
        assert curl(*trust, "--cert", other["cert"], "--key", other["key"], "-d", "1", url)[0] == 0
        assert curl(*trust, "-d", "1", url)[0] == 0
        assert curl("-d", "1", url.replace("https", "http"))[0] == 0


class Sender(threading.Thread):
    """Posts until it is stopped, and writes down what was acked with 200. `keyed`: each request has an
    Idempotency-Key, and is sent again until it is answered."""

    def __init__(self, number: int, port: int, stop: threading.Event, *, keyed: bool = False) -> None:
        super().__init__(daemon=True)
        self.keyed = keyed
        self.failures = 0  # requests without an answer 200
        self.acked: list[str] = []
        self._number, self._port, self._stop_now = number, port, stop
        self._dice = random.Random(number)

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        sent = 0
        while not self._stop_now.is_set():
            ids = [f"{self._number}-{sent + n}" for n in range(self._dice.choice((1, 1, 10, 500)))]
            sent += len(ids)
            body = "".join(f'{{"id":"{each}"}}\n' for each in ids)
            while not self._is_acked(connection, body, ids[0]):
                self.failures += 1
                self._stop_now.wait(0.02)  # it is being started again
                if self._stop_now.is_set() or not self.keyed:
                    break
            else:
                self.acked += ids
        connection.close()

    def _is_acked(self, connection: http.client.HTTPConnection, body: str, first: str) -> bool:
        headers = {"Content-Type": "application/x-ndjson"} | ({"Idempotency-Key": first} if self.keyed else {})
        try:
            connection.request("POST", "/", body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return False
        return answer.status == 200


@pytest.mark.nightly
def test_killed_under_load_nothing_that_was_answered_with_200_is_missing(tmp_path: Path) -> None:
    """And what was sent again with its Idempotency-Key is there once."""
    port = free_port()
    flow = door(tmp_path, port)
    out = tmp_path / "out.jsonl"
    senders = killed_under_load(flow, port, keyed=SENDERS // 2)
    acked = {each for sender in senders for each in sender.acked}
    with running(flow, tmp_path) as daemon:
        wait_until(lambda: acked <= ids_in(out), "what was acked is missing")
        assert daemon.terminate() == 0
    assert acked
    keyed = {str(number) for number, sender in enumerate(senders) if sender.keyed}
    ids = [json.loads(line)["id"] for line in out.read_bytes().splitlines()]
    assert not {each for each, count in Counter(ids).items() if count > 1 and each.split("-")[0] in keyed}


@pytest.mark.nightly
def test_a_log_for_spark_has_once_what_is_sent_again_with_its_key(tmp_path: Path) -> None:
    port = free_port()
    flow = tmp_path / "main.troy"
    web, lake = plain("http_server", url=f"127.0.0.1:{port}"), plain("spark", path="lake", url=ANY_PORT)
    flow.write_text(flow_of("web -> lake", web=web, lake=lake))
    senders = killed_under_load(flow, port, keyed=SENDERS)
    acked = {each for sender in senders for each in sender.acked}
    dumped = ran([*WALFLOW, "wal", "dump", "--raw", "lake"], cwd=tmp_path, capture_output=True, check=True)
    times = Counter(json.loads(line)["id"] for line in dumped.stdout.splitlines())
    assert acked <= times.keys()
    assert max(times.values()) == 1


def killed_under_load(flow: Path, port: int, *, keyed: int) -> list[Sender]:
    """A daemon, again and again. `keyed`: so many senders give keys. Returns all when they have ended."""
    stop = threading.Event()
    senders = [Sender(number, port, stop, keyed=number < keyed) for number in range(SENDERS)]
    dice = random.Random(19)
    for life in range(KILLS):
        before = sum(len(sender.acked) for sender in senders)
        daemon = Daemon(flow, flow.parent)
        if not life:
            for sender in senders:
                sender.start()
        wait_for_acks(senders, before + dice.randrange(1, 3000))
        daemon.kill()
    stop.set()
    for sender in senders:
        sender.join(PATIENCE)
    return senders


@pytest.mark.nightly
def test_from_log_to_log_nothing_is_missing_when_the_receiver_is_killed(tmp_path: Path) -> None:
    """flows/doors/http-relay.troy sends to flows/doors/http.troy."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    receiving = door(there, free_port())
    port = receiving.read_text().split("127.0.0.1:")[-1].split('"')[0]
    text = (ROOT / "flows/doors/http-relay.troy").read_text()
    relay = here / "relay.troy"
    relay.write_text(text.replace("127.0.0.1:8080", "127.0.0.1:0").replace("127.0.0.1:8081", f"127.0.0.1:{port}"))
    with running(relay, here) as daemon:
        at, stop = daemon.port(), threading.Event()
        senders = [Sender(number, at, stop) for number in range(2)]
        for sender in senders:
            sender.start()
        dice = random.Random(1)
        for life in range(4):
            receiver = Daemon(receiving, there)
            seen = len(ids_in(there / "out.jsonl"))
            goal = seen + dice.randrange(1, 2000)
            wait_for_events(there / "out.jsonl", goal)
            receiver.kill()
            assert life or seen == 0
        stop.set()
        for sender in senders:
            sender.join(PATIENCE)
        acked = {each for sender in senders for each in sender.acked}
        with running(receiving, there) as receiver:
            wait_until(lambda: acked <= ids_in(there / "out.jsonl"), "what was acked is missing")
            assert receiver.terminate() == 0
        assert daemon.terminate() == 0


def wait_for_events(out: Path, count: int) -> None:
    wait_until(lambda: len(ids_in(out)) >= count, "nothing arrives")


def ids_in(out: Path) -> set[str]:
    found: set[str] = set()
    with suppress(FileNotFoundError):
        for line in out.read_bytes().splitlines():
            with suppress(ValueError):  # the last one is being written
                found.add(json.loads(line)["id"])
    return found


def test_a_drain_answers_what_is_acked_and_takes_no_more(tmp_path: Path) -> None:
    with running(door(tmp_path), tmp_path) as daemon:
        port, stop = daemon.port(), threading.Event()
        senders = [Sender(number, port, stop) for number in range(SENDERS)]
        for sender in senders:
            sender.start()
        wait_until(lambda: sum(len(sender.acked) for sender in senders) > 1000)
        assert daemon.terminate() == 0, daemon.raw
        stop.set()
        for sender in senders:
            sender.join(PATIENCE)
    assert {each for sender in senders for each in sender.acked} <= ids_in(tmp_path / "out.jsonl")


def wait_for_acks(senders: Sequence[Sender], count: int) -> None:
    wait_until(lambda: sum(len(sender.acked) for sender in senders) >= count, "nothing is acked")


def test_the_flow_answers(tmp_path: Path) -> None:
    """flows/doors/http-answers.troy."""
    text = (ROOT / "flows/doors/http-answers.troy").read_text().replace("127.0.0.1:8080", "127.0.0.1:0")
    flow = tmp_path / "answers.troy"
    flow.write_text(text)
    with running(flow, tmp_path) as daemon:
        url = f"http://127.0.0.1:{daemon.port()}/orders"
        assert curl("-d", '{"id":7}', url) == (201, '{"id":7}')
        assert curl("-d", "{}", url) == (422, '{"error":"an order has an id"}')
        assert curl(url) == (200, '{"service":"orders"}')
        out = tmp_path / "orders.jsonl"
        wait_until(lambda: out.exists() and out.read_text() == '{"id":7}\n')
        assert daemon.terminate() == 0, daemon.raw


@pytest.mark.nightly
def test_a_flow_asks_another_server_and_answers_with_what_it_says(tmp_path: Path) -> None:
    """flows/doors/http-ask.troy asks flows/doors/http-answers.troy."""
    here, there = tmp_path / "here", tmp_path / "there"
    for directory, name in ((there, "http-answers"), (here, "http-ask")):
        directory.mkdir()
        text = (ROOT / f"flows/doors/{name}.troy").read_text()
        (directory / "flow.troy").write_text(re.sub(r'"127.0.0.1:808\d"', '"127.0.0.1:0"', text))
    with running(there / "flow.troy", there) as other:
        asking = here / "flow.troy"
        asking.write_text(asking.read_text().replace("http://127.0.0.1:8080", f"http://127.0.0.1:{other.port()}"))
        with running(asking, here) as daemon:
            url = f"http://127.0.0.1:{daemon.port()}/"
            assert curl("-d", '{"id":7}', url) == (201, '{"id":7}')
            assert curl("-d", "{}", url)[0] == 500
            assert daemon.terminate() == 0, daemon.raw
        assert other.terminate() == 0, other.raw
