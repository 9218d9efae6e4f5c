"""The types of ramps in tremor 0.11, and the connector that replaces each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from walflow.lang.legacy.artefacts import RampKind

Takes = Literal["text", "port", "milliseconds", "true or false"]


@dataclass(frozen=True)
class LegacyKey:
    """`to`: the key of the connector's `config`. None if the key has no effect here; `without` says why."""

    takes: Takes
    to: str | None = None
    required: bool = False
    without: str = ""


@dataclass(frozen=True)
class LegacyKind:
    """`codec`: the default; None for a connector that takes none. `lines`: events are lines with any processors that
    are named. `lines_unsaid`: events are lines if no processors are named. `host` and `port` become one `url`."""

    connector: str
    keys: Mapping[str, LegacyKey]
    codec: str | None = "json"
    lines: bool = False
    lines_unsaid: bool = False
    fixed: Mapping[str, object] | None = None


_ADDRESS: Final = {"host": LegacyKey("text", "url", required=True), "port": LegacyKey("port", "url", required=True)}

KINDS: Final[Mapping[RampKind, Mapping[str, LegacyKind]]] = {
    "onramp": {
        "metronome": LegacyKind(
            "metronome",
            {"interval": LegacyKey("milliseconds", "interval", required=True)},
            None,
            fixed={"legacy": True},
        ),
        "ws": LegacyKind("ws_server", _ADDRESS),
        "tcp": LegacyKind("tcp_server", _ADDRESS, lines_unsaid=True),
        "udp": LegacyKind("udp_server", _ADDRESS, "string"),
        "file": LegacyKind(
            "file",
            {
                "source": LegacyKey("text", "path", required=True),
                "close_on_done": LegacyKey("true or false", "exit"),
                "sleep_on_done": LegacyKey(
                    "milliseconds", without="walflow ends once what was read is settled, however long that takes"
                ),
            },
            lines=True,
            fixed={"mode": "read"},
        ),
        "stdin": LegacyKind("stdio", {}, "string", lines_unsaid=True),
    },
    "offramp": {
        "ws": LegacyKind(
            "ws_client",
            {"url": LegacyKey("text", "url", required=True), "binary": LegacyKey("true or false", "binary")},
        ),
        "tcp": LegacyKind("tcp_client", _ADDRESS, lines_unsaid=True),
        "udp": LegacyKind("udp_client", _ADDRESS),
        "file": LegacyKind(
            "file", {"file": LegacyKey("text", "path", required=True)}, lines=True, fixed={"mode": "truncate"}
        ),
        "stdout": LegacyKind("stdio", {}, lines=True),
        "stderr": LegacyKind("stdio", {}, lines=True, fixed={"stream": "stderr"}),
        "exit": LegacyKind("exit", {}, None),
    },
}

# of tremor 0.11, and not read from YAML
ABSENT: Final[Mapping[RampKind, frozenset[str]]] = {
    "onramp": frozenset(
        (
            "amqp",
            "blaster",
            "crononome",
            "discord",
            "env",
            "gsub",
            "http",
            "kafka",
            "nats",
            "otel",
            "postgres",
            "rest",
            "sse",
        )
    ),
    "offramp": frozenset(
        (
            "amqp",
            "blackhole",
            "cb",
            "debug",
            "dns",
            "elastic",
            "gcs",
            "gpub",
            "kafka",
            "kv",
            "nats",
            "newrelic",
            "otel",
            "postgres",
            "rest",
            "s3",
            "udp_broadcast",
        )
    ),
}

# ramps that need no definition: `/offramp/system::stdout/system/in`
SYSTEM: Final[Mapping[tuple[str, str], str]] = {
    ("offramp", "system::stdout"): "stdout",
    ("offramp", "system::stderr"): "stderr",
}
PASSTHROUGH: Final = "system::passthrough"

# a name of 0.11 -> ours, with its config
PREPROCESSORS: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "lines": ("separate", {}),
    "lines-null": ("separate", {"separator": "\0"}),
    "lines-pipe": ("separate", {"separator": "|"}),
    "lines-cr": ("separate", {"separator": "\r"}),
    "lines-no-buffer": ("separate", {}),
    "base64": ("base64", {}),
    "length-prefixed": ("length-prefixed", {}),
    "textual-length-prefix": ("textual-length-prefixed", {}),
    "remove-empty": ("remove-empty", {}),
    "decompress": ("decompress", {}),
    "gzip": ("decompress", {"algorithm": "gzip"}),
    "zlib": ("decompress", {"algorithm": "zlib"}),
    "lz4": ("decompress", {"algorithm": "lz4"}),
    "snappy": ("decompress", {"algorithm": "snappy"}),
    "xz": ("decompress", {"algorithm": "xz2"}),
}
POSTPROCESSORS: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "lines": ("separate", {}),
    "base64": ("base64", {}),
    "length-prefixed": ("length-prefixed", {}),
    "textual-length-prefix": ("textual-length-prefixed", {}),
    "gzip": ("compress", {"algorithm": "gzip"}),
    "zlib": ("compress", {"algorithm": "zlib"}),
    "lz4": ("compress", {"algorithm": "lz4"}),
    "snappy": ("compress", {"algorithm": "snappy"}),
    "xz": ("compress", {"algorithm": "xz2"}),
}

# of those, what a `.troy` file has as a connector
IN_TROY: Final = {"crononome": "crononome", "blaster": "bench", "blackhole": "bench", "cb": "cb"}
