"""Names of librdkafka's options, those that are set in practice. librdkafka itself does not list them."""

from typing import Final

KNOWN: Final = (
    *("allow.auto.create.topics", "api.version.request", "auto.offset.reset", "batch.num.messages", "batch.size"),
    *("broker.address.family", "broker.address.ttl", "check.crcs", "client.id", "client.rack", "compression.codec"),
    *("compression.level", "compression.type", "connections.max.idle.ms", "debug", "delivery.timeout.ms"),
    *("fetch.error.backoff.ms", "fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes", "fetch.wait.max.ms"),
    *("group.instance.id", "heartbeat.interval.ms", "isolation.level", "linger.ms", "max.in.flight"),
    *("max.in.flight.requests.per.connection", "max.partition.fetch.bytes", "max.poll.interval.ms"),
    *("message.copy.max.bytes", "message.max.bytes", "message.send.max.retries", "message.timeout.ms"),
    *("metadata.max.age.ms", "partition.assignment.strategy", "partitioner", "queue.buffering.max.kbytes"),
    *("queue.buffering.max.messages", "queue.buffering.max.ms", "queued.max.messages.kbytes", "queued.min.messages"),
    *("receive.message.max.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms"),
    *(
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "session.timeout.ms",
        "socket.connection.setup.timeout.ms",
    ),
    *("socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable", "socket.receive.buffer.bytes"),
    *("socket.send.buffer.bytes", "socket.timeout.ms", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm"),
    *("statistics.interval.ms", "sticky.partitioning.linger.ms", "topic.metadata.refresh.interval.ms"),
)
