"""What tremor 0.13 names and walflow does not have: what there is instead, or that it comes later.

`walflow check` shows these sentences for a name that is unknown here, and docs/reference/tremor.md lists them.
"""

from collections.abc import Mapping
from typing import Final, Literal

Kind = Literal["connector", "codec", "preprocessor", "postprocessor"]

_UPLOAD: Final = "later; until then `file`, and a program that uploads the files"
_ELASTIC: Final = "`http_client` to `/INDEX/_doc`, an event a request; the bulk interface comes later"
_QUEUE: Final = "later; until then a program of that system's own between it and `http_server` or `http_client`"
_ONE_EVENT: Final = "acks are for each event, and this step would hold events back without one"

SUBSTITUTES: Final[Mapping[Kind, Mapping[str, str]]] = {
    "connector": {
        "azure_monitor_ingest_writer": "later",
        "clickhouse": (
            '`http_client` with `"batch": "lines"` to ClickHouse\'s HTTP interface (`INSERT … FORMAT JSONEachRow`)'
        ),
        "discord": "`http_client` to a webhook of Discord; reading messages is not supported",
        "elastic": _ELASTIC,
        "gbq_writer": "later; until then a job on `spark` that writes to BigQuery",
        "gcl_writer": "later",
        "gcs_streamer": _UPLOAD,
        "gpubsub_consumer": _QUEUE,
        "gpubsub_producer": _QUEUE,
        "otel_client": "later",
        "otel_server": "later",
        "s3_reader": "later; until then a job on `spark` that reads the objects",
        "s3_streamer": _UPLOAD,
    },
    "codec": {
        "binflux": "`msgpack` or `tremor`",
        "confluent-schema-registry": "the connector `schema_registry`, behind a source with the codec `binary`",
        "json-sorted": '`{"name": "json", "config": {"mode": "sorted"}}`',
    },
    "preprocessor": {
        "ingest-ns": "the sender puts the time into the event: a block has one time of arrival",
    },
    "postprocessor": {
        "chunk": f"`udp_client` sends an event a datagram: {_ONE_EVENT}",
        "collect": f'`http_client` has `"batch"`; other connectors write a block at a time: {_ONE_EVENT}',
        "gelf-chunking": "GELF over TCP: `tcp_client` with `separate` by `\\0`",
        "streaming-compress": f"`compress`, for each event: {_ONE_EVENT}",
    },
}

# All of tremor's, in its own order: what is not above, walflow has.
TREMORS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "connector": (
        *(
            "azure_monitor_ingest_writer",
            "bench",
            "cb",
            "clickhouse",
            "crononome",
            "discord",
            "dns_client",
            "elastic",
        ),
        *("exit", "file", "gbq_writer", "gcl_writer", "gcs_streamer", "gpubsub_consumer", "gpubsub_producer"),
        *("http_client", "http_server", "kafka_consumer", "kafka_producer", "kv", "metrics", "metronome", "null"),
        *(
            "otel_client",
            "otel_server",
            "s3_reader",
            "s3_streamer",
            "stdio",
            "tcp_client",
            "tcp_server",
            "udp_client",
        ),
        *("udp_server", "unix_socket_client", "unix_socket_server", "wal", "ws_client", "ws_server"),
    ),
    "codec": (
        *(
            "avro",
            "binary",
            "binflux",
            "confluent-schema-registry",
            "csv",
            "dogstatsd",
            "graphite-plaintext",
            "influx",
        ),
        *("json", "json-sorted", "msgpack", "null", "statsd", "string", "syslog", "tremor", "yaml"),
    ),
    "preprocessor": (
        *("base64", "decompress", "gelf-chunking", "ingest-ns", "length-prefixed", "remove-empty", "separate"),
        "textual-length-prefixed",
    ),
    "postprocessor": (
        *("base64", "chunk", "collect", "compress", "gelf-chunking", "ingest-ns", "length-prefixed", "separate"),
        *("streaming-compress", "textual-length-prefixed"),
    ),
}


# What users of other programs call it.
FOREIGN: Final[Mapping[str, str]] = {
    "amqp": _QUEUE,
    "aws_s3": _UPLOAD,
    "blackhole": "`null`",
    "demo_logs": "`metronome`",
    "elasticsearch": _ELASTIC,
    "exec": "`stdio`, with the program in a pipe: `program | walflow run …`",
    "http": "`http_server` as a source, `http_client` as a sink",
    "journald": "`stdio`: `journalctl -f -o json | walflow run …`",
    "kafka": "`kafka_consumer` as a source, `kafka_producer` as a sink",
    "mqtt": "`mqtt_subscriber` as a source, `mqtt_publisher` as a sink",
    "nats": _QUEUE,
    "postgres": "later; until then a job on `spark` that writes to the database",
    "prometheus": "the daemon's address `/metrics`, see `--admin`",
    "pulsar": _QUEUE,
    "redis": _QUEUE,
    "relp": '`tcp_server` with `"textual-length-prefixed"` and `codec = "syslog"`: no library for RELP is kept',
    "socket": "`tcp_server`, `udp_server` or `unix_socket_server`",
    "stdin": "`stdio`",
    "stdout": "`stdio`",
    "syslog": '`tcp_server` or `udp_server`, with `codec = "syslog"`',
    "tcp": "`tcp_server` as a source, `tcp_client` as a sink",
    "udp": "`udp_server` as a source, `udp_client` as a sink",
    "unix": "`unix_socket_server` as a source, `unix_socket_client` as a sink",
    "websocket": "`ws_server` as a source, `ws_client` as a sink",
}


_LINES: Final = '`json`, with `preprocessors = ["separate"]` or `postprocessors = ["separate"]`'
_FOREIGN_STEPS: Final[Mapping[str, Mapping[str, str]]] = {
    "codec": {
        **dict.fromkeys(("json_lines", "jsonl", "ndjson"), _LINES),
        **dict.fromkeys(("line", "lines", "plain", "raw", "text"), "`string`"),
        "bytes": "`binary`",
    },
    "preprocessor": dict.fromkeys(("line", "lines", "newline", "newline_delimited"), "`separate`"),
    "postprocessor": dict.fromkeys(("line", "lines", "newline", "newline_delimited"), "`separate`"),
}


def substitute(kind: str, name: str) -> str | None:
    """A hint for a name that walflow does not have."""
    for of, known in SUBSTITUTES.items():
        if of == kind and name in known:
            text = known[name]
            return f"tremor has it; here {'it comes ' if text.startswith('later') else 'there is '}{text}"
    if name in _FOREIGN_STEPS.get(kind, {}):
        return f"there is {_FOREIGN_STEPS[kind][name]}"
    if kind == "connector" and name in FOREIGN:
        text = FOREIGN[name]
        return f"it comes {text}" if text.startswith("later") else f"there is {text}"
    return None
