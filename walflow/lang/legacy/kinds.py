"""What tremor 0.11 calls a type of ramp, and the connector that does it here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from walflow.lang.legacy.artefacts import RampKind

Takes = Literal["text", "port", "milliseconds", "true or false"]


@dataclass(frozen=True)
class Key:
    """`to`: the key of the connector's `config` it becomes; None where it has no effect here, which `without` says."""

    takes: Takes
    to: str | None = None
    required: bool = False
    without: str = ""


@dataclass(frozen=True)
class Kind:
    """`codec`: the one that counts where none is named; None for a connector that takes none. `lines`: events are
    lines whatever processors are named; `lines_unsaid`: where none are. `host` and `port` become one `url`."""

    connector: str
    keys: Mapping[str, Key]
    codec: str | None = "json"
    lines: bool = False
    lines_unsaid: bool = False
    fixed: Mapping[str, object] | None = None


_ADDRESS: Final = {"host": Key("text", "url", required=True), "port": Key("port", "url", required=True)}

KINDS: Final[Mapping[RampKind, Mapping[str, Kind]]] = {
    "onramp": {
        "metronome": Kind(
            "metronome", {"interval": Key("milliseconds", "interval", required=True)}, None, fixed={"legacy": True}
        ),
        "ws": Kind("ws_server", _ADDRESS),
        "tcp": Kind("tcp_server", _ADDRESS, lines_unsaid=True),
        "udp": Kind("udp_server", _ADDRESS, "string"),
        "file": Kind(
            "file",
            {
                "source": Key("text", "path", required=True),
                "close_on_done": Key("true or false", "exit"),
                "sleep_on_done": Key(
                    "milliseconds", without="walflow ends once what was read is settled, however long that takes"
                ),
            },
            lines=True,
            fixed={"mode": "read"},
        ),
        "stdin": Kind("stdio", {}, "string", lines_unsaid=True),
    },
    "offramp": {
        "ws": Kind("ws_client", {"url": Key("text", "url", required=True), "binary": Key("true or false", "binary")}),
        "tcp": Kind("tcp_client", _ADDRESS, lines_unsaid=True),
        "udp": Kind("udp_client", _ADDRESS),
        "file": Kind("file", {"file": Key("text", "path", required=True)}, lines=True, fixed={"mode": "truncate"}),
        "stdout": Kind("stdio", {}, lines=True),
        "stderr": Kind("stdio", {}, lines=True, fixed={"stream": "stderr"}),
        "exit": Kind("exit", {}, None),
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

# what has no name in a file: `/offramp/system::stdout/system/in`
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
