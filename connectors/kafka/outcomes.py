"""What became of the events of a block that were sent as messages."""

from collections.abc import Mapping
from enum import Enum
from itertools import groupby
from typing import Final

from confluent_kafka import KafkaError

from walflow import Block, Inlet, WalflowError


class NotProduced(WalflowError):
    """No broker has confirmed the message. It may be there."""


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


class ProducedBlock:
    """A block, its events as messages, and how many have no outcome yet. `refused`: those that were not delivered, with the
    reason, and whether they never can be."""

    __slots__ = ("block", "left", "messages", "metas", "refused")

    def __init__(self, block: Block, messages: list[bytes]) -> None:
        self.block = block
        self.messages = messages
        self.metas = block.event_metas
        self.left = len(messages)
        self.refused: dict[int, tuple[bool, str]] = {}

    def __repr__(self) -> str:
        return f"<ProducedBlock of {self.block!r}, {self.left} left>"

    def meta(self, number: int) -> Mapping[str, object]:
        return self.block.meta if self.metas is None else self.metas[number]

    def settle(self, inlet: Inlet) -> None:
        if not self.refused:
            inlet.ack(self.block)
            return
        runs = [(key, len(list(group))) for key, group in groupby(range(len(self.messages)), self._outcome)]
        for part, (outcome, _) in zip(self.block.split([count for _, count in runs]), runs, strict=True):
            if outcome is None:
                inlet.ack(part)
            elif outcome[0]:
                inlet.reject(part, outcome[1])
            else:
                inlet.fail(part, NotProduced(outcome[1]))

    def _outcome(self, number: int) -> tuple[bool, str] | None:
        return self.refused.get(number)
