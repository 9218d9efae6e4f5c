"""What kind of value the members of an event have, where its codec decides it. So `check` finds a comparison that no
event can pass. `ANY` stands for any key or index. A codec that is not here, as json, says nothing of its members.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from walflow.codecs.syslog.names import FACILITIES, SEVERITIES

Kind = Literal["string", "number", "array", "record", "boolean"]
Member = tuple[str | int, ...]

ANY: Final = "*"

KINDS: Final[Mapping[str, Mapping[Member, Kind]]] = {
    "csv": {(): "array", (ANY,): "string"},
    "graphite-plaintext": {("metric",): "string", ("value",): "number", ("timestamp",): "number"},
    "influx": {
        ("measurement",): "string",
        ("tags",): "record",
        ("tags", ANY): "string",
        ("fields",): "record",
        ("timestamp",): "number",
    },
    "statsd": {("metric",): "string", ("type",): "string", ("action",): "string", ("sample_rate",): "number"},
    "string": {(): "string"},
    "syslog": {
        **{(name,): "string" for name in ("severity", "facility", "hostname", "appname", "procid", "msgid")},
        **{(name,): "string" for name in ("protocol", "msg")},
        **{(name,): "number" for name in ("timestamp", "protocol_version")},
        ("structured_data",): "record",
    },
}

NUMBERED: Final[Mapping[tuple[str, Member], Sequence[str]]] = {
    ("syslog", ("severity",)): SEVERITIES,
    ("syslog", ("facility",)): FACILITIES,
}
"""Members whose strings have numbers elsewhere, in their order."""


def kind_at(codec: str, member: Member) -> Kind | None:
    """The kind that the codec gives this member. None: any kind."""
    known = KINDS.get(codec, {})
    return known.get(member) or (known.get((*member[:-1], ANY)) if member else None)
