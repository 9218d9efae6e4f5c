"""What decoding and encoding an event costs, codec by codec, within the process: `python -m bench.codecs`.

A read of some 256 KiB is validated, decoded and encoded again, without sockets or a log around it. All codecs in
turns; the least of many rounds counts, as other work on the machine only adds.
"""

import sys
import time
from collections.abc import Mapping
from typing import Final

from walflow.codecs import make
from walflow.event import Codec
from walflow.framing import MESSAGES

READ: Final = 256 << 10  # bytes
ROUNDS: Final = 20

RECORD: Final = {
    "seq": 1,
    "level": "info",
    "host": "web-1.example.com",
    "msg": "An application event log entry",
    "ms": 1.5,
}
TYPES: Final = {"seq": "long", "level": "string", "host": "string", "msg": "string", "ms": "double"}
SCHEMA: Final = {"type": "record", "name": "r", "fields": [{"name": name, "type": of} for name, of in TYPES.items()]}
DATUM: Final = {"schema": SCHEMA, "format": "datum"}

# the codec, its configuration, and an event or its bytes
CASES: Final[Mapping[str, tuple[str, Mapping[str, object], object]]] = {
    "json": ("json", {}, RECORD),
    "msgpack": ("msgpack", {}, RECORD),
    "tremor": ("tremor", {}, RECORD),
    "avro, datum": ("avro", DATUM, RECORD),
    "avro, container": ("avro", {"schema": SCHEMA}, RECORD),
    "yaml": ("yaml", {}, RECORD),
    "csv": ("csv", {}, b'1,info,web-1.example.com,"An application event, logged as an entry",1.5'),
    "syslog, RFC 5424": (
        "syslog",
        {},
        b"<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog 7 ID47 - An application event log entry",
    ),
    "syslog, RFC 5424 with structured data": (
        "syslog",
        {},
        (
            b'<165>1 2003-10-11T22:14:15.003Z mymachine evntslog 7 ID47 [exampleSDID@32473 iut="3" '
            b'eventID="1011"] An entry'
        ),
    ),
    "syslog, RFC 3164": (
        "syslog",
        {},
        b"<34>Oct 11 22:14:15 mymachine su[123]: 'su root' failed for lonvick on /dev/pts/8",
    ),
    "influx": ("influx", {}, b"weather,location=us-midwest temperature=82.0,wind=3i 1465839830100400200"),
    "statsd": ("statsd", {}, b"web.requests.duration:320|ms|@0.1"),
    "dogstatsd": ("dogstatsd", {}, b"users.online:1|c|@0.5|#country:china,env:dev"),
    "graphite-plaintext": ("graphite-plaintext", {}, b"local.random.diceroll 4.0 1620649445"),
}


class Measured:
    """The least seconds of an event so far."""

    def __init__(self, name: str, config: Mapping[str, object], example: object) -> None:
        self.codec: Codec = make(name, config)
        payload = example if isinstance(example, bytes) else self.codec.encode(example)
        self.size = len(payload)
        self.count = READ // self.size
        self.data = MESSAGES.join([payload] * self.count)
        self.payload = payload
        self.value = self.codec.decode(payload)
        self.validates = self.decodes = self.encodes = float("inf")

    def round(self) -> None:
        began = time.perf_counter()
        verdict = self.codec.validate(self.data, MESSAGES)
        validated = time.perf_counter()
        for _ in range(self.count):
            self.codec.decode(self.payload)
        decoded = time.perf_counter()
        for _ in range(self.count):
            self.codec.encode(self.value)
        encoded = time.perf_counter()
        assert verdict.good is not None
        assert verdict.good.count == self.count
        self.validates = min(self.validates, (validated - began) / self.count)
        self.decodes = min(self.decodes, (decoded - validated) / self.count)
        self.encodes = min(self.encodes, (encoded - decoded) / self.count)


def main(rounds: int = ROUNDS) -> None:
    measured = {title: Measured(*case) for title, case in CASES.items()}
    for _ in range(rounds):
        for one in measured.values():
            one.round()
    print("| an event | bytes | validate, µs | decode, µs | encode, µs |")
    print("|---|--:|--:|--:|--:|")
    for title, one in measured.items():
        times = " | ".join(f"{1e6 * seconds:.2f}" for seconds in (one.validates, one.decodes, one.encodes))
        print(f"| {title} | {one.size} | {times} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
