"""What `walflow.codecs.kinds` says of a codec's members is what the codec makes of bytes."""

import pytest

from walflow.codecs import make
from walflow.codecs.kinds import ANY, KINDS, NUMBERED, Kind, Member

SAMPLES = {
    "csv": b"12,abc",
    "graphite-plaintext": b"servers.one.load 0.5 1465839830",
    "influx": b"weather,location=us temperature=82 1465839830100400200",
    "statsd": b"sam:+7|g|@0.1",
    "string": b"12",
    "syslog": b'<165>1 2003-10-11T22:14:15.003Z mymachine evntslog 7 ID47 [id@32473 iut="3"] An event',
}
PYTHON: dict[Kind, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "array": list,
    "record": dict,
    "boolean": bool,
}


def at(value: object, member: Member) -> object:
    for key in member:
        if key == ANY:
            value = (
                next(iter(value.values()))
                if isinstance(value, dict)
                else value[0]
                if isinstance(value, list)
                else None
            )
        else:
            assert isinstance(value, dict)
            value = value[key]
    return value


def test_there_is_a_sample_for_each_codec() -> None:
    assert SAMPLES.keys() == KINDS.keys()


@pytest.mark.parametrize(("codec", "member"), [(codec, member) for codec, known in KINDS.items() for member in known])
def test_a_member_has_its_kind(codec: str, member: Member) -> None:
    assert isinstance(at(make(codec).decode(SAMPLES[codec]), member), PYTHON[KINDS[codec][member]])


@pytest.mark.parametrize("severity", range(8))
def test_names_have_their_numbers(severity: int) -> None:
    event = make("syslog").decode(f"<{16 * 8 + severity}>Oct 11 22:14:15 host app: text".encode())
    assert isinstance(event, dict)
    assert event["severity"] == NUMBERED["syslog", ("severity",)][severity]
    assert event["facility"] == NUMBERED["syslog", ("facility",)][16]
