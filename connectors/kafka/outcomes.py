"""What an error means for a message."""

from enum import Enum
from typing import Final

from confluent_kafka import KafkaError


class MessageFate(Enum):
    """On a message that was not taken."""

    REJECT = "no broker will ever take it"
    FAIL = "it may succeed later"
    AGAIN = "it is sent again, after a wait"
    ALONE = "it is sent again alone: perhaps the messages that went with it made it too large"


_NEVER: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE,  # by librdkafka itself, of one message
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._INVALID_ARG,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_MSG,
    KafkaError.POLICY_VIOLATION,
}
_LATER: Final = {KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL}
_TOO_LARGE: Final = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}


def of_report(error: KafkaError, *, alone: bool) -> MessageFate:
    """`alone`: the message was the only one of its request."""
    code = error.code()
    if code in _TOO_LARGE:
        return MessageFate.REJECT if alone else MessageFate.ALONE
    if code in _NEVER:
        return MessageFate.REJECT
    return MessageFate.FAIL if code in _LATER else MessageFate.AGAIN


def of_call(error: KafkaError) -> MessageFate:
    """Of `produce` itself, which has sent nothing."""
    return MessageFate.REJECT if error.code() in _NEVER else MessageFate.AGAIN
