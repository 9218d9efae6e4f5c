"""For a reader who comes from Spark's Kafka source: which of its options are understood here, and what to say instead
of the others. docs/reference/spark.md has the tables, which a test compares with these."""

from typing import Final

SAME: Final = {  # Kafka's option, and ours
    "startingOffsets": "startingPosition",
    "endingOffsets": "endingPosition",
    "maxOffsetsPerTrigger": "maxRowsPerBatch",
    "minOffsetsPerTrigger": "minRowsPerBatch",
    "includeHeaders": "metadata",
    "startingTimestamp": "startingTimestamp",
    "endingTimestamp": "endingTimestamp",
}

HINTS: Final = {  # in small letters where it is the beginning of a name
    "subscribe": "a connector has one log, and options host and port name it",
    "subscribePattern": "a connector has one log, and options host and port name it",
    "assign": "a log has no partitions; numPartitions says how many tasks read it",
    "kafka.": "there is no broker; host, port, tokenFile, tls and cafile say where the log is",
    "groupIdPrefix": "consumer names the reader",
    "startingOffsetsByTimestamp": "a log has no partitions; startingTimestamp is a time for all of it",
    "endingOffsetsByTimestamp": "a log has no partitions; endingTimestamp is a time for all of it",
    "kafkaConsumer.pollTimeoutMs": "retrySeconds says how long a daemon that went away is waited for",
    "fetchOffset.numRetries": "retrySeconds says how long a daemon that went away is waited for",
    "fetchOffset.retryIntervalMs": "retrySeconds says how long a daemon that went away is waited for",
    "maxRecordsPerPartition": "numPartitions or minPartitions says how many tasks there are",
}


def tables() -> str:
    lines = ["| Kafka's source | here |", "|---|---|"]
    lines += [f"| `{kafkas}` | the same; also called `{ours}` |" for kafkas, ours in SAME.items()]
    lines += [
        f"| `{kafkas}{'…' if kafkas.endswith('.') else ''}` | no: {instead} |" for kafkas, instead in HINTS.items()
    ]
    return "\n".join(lines) + "\n"
