"""A hundred thousand damaged events for each codec: each is an event or refused, and what is an event can be used."""

import random

import pytest

from bench.codecs import CASES
from tests.codecs.test_protobuf import INLINE
from walflow.codecs import JSON, make, registered
from walflow.errors import CannotDecode, CannotEncode

INPUTS = 100_000
MORE = {  # beside those that the bench has
    "binary": [b"\x00\xff"],
    "dogstatsd": [b"_e{5,4}:title|text|d:1620649445|h:web|#a,b", b"_sc|Redis connection|2|#env:dev|m:timed out"],
    "null": [b"x"],
    "protobuf": [bytes.fromhex("0896011207746573"), b"\x42\x02\x08\x05\x42\x00"],
    "statsd": [b"gaugor:-10|g", b"uniques:765|s"],
    "string": ["caf\xe9".encode()],
    "syslog": [
        b'<46>Jan  5 15:33:03 host rsyslogd: [origin software="rsyslogd"] start',
        b"<13>Jan  5 15:33:03 root[1]: x",
    ],
    "yaml": [b"a: [1, {b: ~}]\nc: |\n  text\n"],
}


def examples(name: str) -> tuple[dict[str, object], list[bytes]]:
    config: dict[str, object] = {"descriptors": INLINE, "message": "t.Test"} if name == "protobuf" else {}
    payloads = list(MORE.get(name, []))
    for of, given, example in CASES.values():
        if of == name:
            config = dict(given)
            payloads.append(example if isinstance(example, bytes) else make(name, config).encode(example))
    return config, payloads


def damaged(payload: bytes, rng: random.Random) -> bytes:
    data = bytearray(payload)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(data))
        match rng.randrange(5):
            case 0:
                data[at:at] = rng.randbytes(rng.randint(1, 3))
            case 1:
                del data[at : at + rng.randint(1, 8)]
            case 2 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 3:
                other = rng.randint(0, len(data))
                data[at:at] = data[other : other + rng.randint(1, 8)]
            case _:
                data[at:at] = rng.choice(
                    (b"\n", b'"', b"\\", b"|", b":", b",", b"=", b"[", b"]", b"<", b" ", b"\0", b"9")
                )
    return bytes(data)


def look(name: str, inputs: int) -> tuple[int, int]:
    """How many are events, and how many are refused."""
    config, payloads = examples(name)
    codec = make(name, config)
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    refused = 0
    for _ in range(inputs):
        payload = damaged(rng.choice(payloads), rng)
        try:
            value = codec.decode(payload)
        except CannotDecode as error:
            assert str(error), (seed, payload)  # noqa: PT017
            refused += 1
            continue
        for write in (codec, JSON):
            try:
                write.encode(value)
            except CannotEncode:
                pass
    return inputs - refused, refused


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(registered().of("walflow")))
def test_damaged_events(name: str) -> None:
    assert sum(look(name, INPUTS)) == INPUTS


def test_every_codec_has_examples() -> None:
    assert all(examples(name)[1] for name in registered().of("walflow"))
