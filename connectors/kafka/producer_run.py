"""One run of the sink.

librdkafka has threads of its own. It calls back only from `poll`, and one job at a time polls on the scheduler's
thread. It leaves reports in a list, which the loop takes when the job is over. So callbacks and loop never touch it
together.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connectors.kafka.message_parts import BadMeta, MessageParts, parts_of
from connectors.kafka.outcomes import MessageFate, of_call, of_report
from connectors.kafka.producer import KafkaProducerKeys
from connectors.kafka.settings import KafkaAway, reason_of
from walflow import Block, Inlet, PeerSink, SinkPeer
from walflow.net import (
    MessageRetries,
    NotConfirmed,
    NumberedMessage,
    Refusal,
    RequestOutcome,
    RequestSeconds,
    SentBlock,
    any_untried,
    on_thread,
)

POLL: Final = 0.25  # seconds; it returns at the first report
PATIENT: Final = 3.0  # seconds without a report after which the sources are stopped
CONNECT: Final = 10.0  # seconds to find the topic; then the run ends, and the next one begins after a wait
ASK: Final = 0.5  # seconds for one question
TURN: Final = 8192  # messages that librdkafka gets in one turn of the loop
FLUSH: Final = 1.0  # seconds for what librdkafka has when the run ends


class _Sending:
    """Events of a block that librdkafka does not have. `alone`: one at a time, with no other message under way.
    `alike`: the parts of each message, if no event has metadata of its own."""

    __slots__ = ("alike", "alone", "delivery", "numbers")

    def __init__(self, delivery: SentBlock, numbers: Sequence[int], *, alone: bool = False) -> None:
        self.delivery = delivery
        self.numbers = deque(numbers)
        self.alone = alone
        self.alike: MessageParts | None = None


class KafkaProducerRun(SinkPeer):
    """`make`: the client, of a configuration."""

    def __init__(self, config: KafkaProducerKeys, inlet: Inlet, make: Callable[..., Producer] = Producer) -> None:
        self._config = config
        self._inlet = inlet
        self._make = make
        self._waiting: deque[_Sending] = deque()
        self._held: dict[SentBlock, None] = {}
        self._under_way = 0  # messages that librdkafka has
        self._untried = 0  # those of them that have not failed
        self._in_turn = 0  # messages that librdkafka got in this turn of the loop
        self._lone = False  # the message under way is one
        self._closed = False
        PeerSink(inlet, self, gathers=False)
        self._retries = MessageRetries(inlet, self.sink, self._again, self._has_untried, topic=config.topic)
        self._heard = 0.0
        self._away = ""  # why nothing can be sent yet
        self._trouble = ""  # what librdkafka said since it was heard last
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent = inlet.counter("messages_total")
        self._sent_again = inlet.counter("retried_messages_total")
        self._seconds = RequestSeconds(inlet)
        # written by the thread that polls, taken by the loop when no job is in the air
        self._reports: list[tuple[SentBlock, int, KafkaError | None, float]] = []
        self._error: KafkaError | None = None

    async def run(self) -> None:
        """Until it is cancelled, or librdkafka can do no more."""
        producer = self._make(self._config.options() | {"error_cb": self._on_error})
        self._produce_one = producer.produce
        await self._find_topic(producer)
        self._inlet.gauge("kafka_queued_messages", lambda: len(producer))
        self._poll = partial(self._inlet.scheduler.submit, lambda: _ignore(producer.poll(POLL)), self._polled)
        self._purge = partial(producer.purge, blocking=False)
        self._heard = self._inlet.scheduler.awake()
        self._flush = partial(on_thread, self._inlet.scheduler, lambda: _ignore(producer.flush(FLUSH)))
        self.sink.connected()
        self._inlet.serve(self.sink.accept)
        self._poll()
        try:
            await self._ended
        finally:
            await self.sink.close()

    async def close(self) -> None:
        self._closed = True
        self._retries.end()
        try:
            if self._under_way:
                await self._flush()
        finally:
            self._take_reports()

    def stop_cause(self) -> NotConfirmed:
        return NotConfirmed("walflow has stopped")

    async def _find_topic(self, producer: Producer) -> None:
        """Raises KafkaAway."""
        clock = self._inlet.scheduler.awake
        end = clock() + CONNECT
        while (problem := await on_thread(self._inlet.scheduler, lambda: self._look(producer))) is not None:
            if problem != self._away:
                self._away = problem
                self._inlet.log.warning("kafka client error", reason=problem)
                self._inlet.explain(lambda: self._away)
            if clock() > end or (self._error is not None and _is_final(self._error)):
                raise KafkaAway(problem)
            await asyncio.sleep(POLL)
        self._away = ""
        self._error = None

    def _look(self, producer: Producer) -> str | None:
        """Why nothing can be sent; None: it can. For the thread."""
        topic = self._config.topic
        try:
            found = producer.list_topics(topic, ASK).topics[topic]
        except KafkaException as error:
            producer.poll(0)  # calls `error_cb`, which knows more
            return reason_of(self._error or error)
        return None if found.error is None else f"topic {topic}: {reason_of(found.error)}"

    # the loop's half

    def send(self, waiting: deque[Block]) -> bool:
        while waiting:
            block = waiting.popleft()
            delivery = SentBlock(block, self._inlet.messages(block))
            self._held[delivery] = None
            self._waiting.append(_Sending(delivery, range(delivery.left)))
            self._retries.came()
        while self._waiting and self._may_send() and self._produce_first(first := self._waiting[0]):
            if self._waiting and self._waiting[0] is first:  # what fails may have failed all
                self._waiting.popleft()
        return True

    def _may_send(self) -> bool:
        return not self._retries.waits and self._in_turn < TURN

    def _next_turn(self) -> None:
        full, self._in_turn = self._in_turn >= TURN, 0
        if full:
            self.sink.wake()

    def _produce_first(self, sending: _Sending) -> bool:
        """False: librdkafka takes no more now."""
        delivery, numbers = sending.delivery, sending.numbers
        while numbers:
            if (sending.alone or self._lone) and self._under_way:
                return False
            number = numbers[0]
            try:
                self._send(sending, number)
            except BufferError:
                self._trigger("librdkafka's queue is full")
                return False
            except (BadMeta, TypeError, ValueError, OverflowError) as error:
                self._refuse(delivery, number, (None, str(error)))
            except KafkaException as error:
                self._not_sent(delivery, number, error.args[0])
                if delivery not in self._held:
                    return True
            else:
                self._lone = sending.alone
                if not self._under_way:
                    self._heard = self._inlet.scheduler.awake()
                self._under_way += 1
                if not self._in_turn:
                    self._inlet.scheduler.call_soon(self._next_turn)
                self._in_turn += 1
                self._untried += number not in delivery.failures
                self._sent.value += 1
            numbers.popleft()
        return True

    def _send(self, sending: _Sending, number: int) -> None:
        delivery = sending.delivery
        parts = sending.alike
        if parts is None:
            parts = parts_of(delivery.meta(number), self._config.key)
            if delivery.metas is None:
                sending.alike = parts
        key, partition, timestamp, headers = parts
        self._produce_one(
            self._config.topic,
            delivery.messages[number],
            key,
            partition,
            partial(self._on_report, delivery, number),
            None,
            timestamp,
            headers,
        )

    def _not_sent(self, delivery: SentBlock, number: int, error: KafkaError) -> None:
        if of_call(error) is MessageFate.REJECT:
            self._refuse(delivery, number, (None, f"no message: {reason_of(error)}"))
        else:
            self._not_taken(delivery, number, reason_of(error))

    def _not_taken(self, delivery: SentBlock, number: int, reason: str) -> None:
        """For the moment."""
        if self._inlet.upstream.replaceable:
            self._trigger(reason)  # all that it holds fails
        elif (refusal := self._retries.failed((delivery, number), reason)) is None:
            self._sent_again.value += 1
        else:
            self._refuse(delivery, number, refusal)

    def _again(self, messages: Sequence[NumberedMessage], first: bool) -> None:
        again = [_Sending(delivery, [number]) for delivery, number in messages]
        if first:
            self._waiting.extendleft(reversed(again))
        else:
            self._waiting.extend(again)
        self.sink.wake()

    def _has_untried(self) -> bool:
        waiting = ((sending.delivery, number) for sending in self._waiting for number in sending.numbers)
        return self._untried > 0 or any_untried(waiting)

    def _polled(self, error: BaseException | None) -> None:
        """The job is over, and no callback comes before the next one."""
        if error is not None:
            raise error
        confirmed = self._take_reports()
        told, self._error = self._error, None
        if told is not None:
            self._trouble = f": {reason_of(told)}"
            if told.fatal():
                self._end(reason_of(told))
                return
        now = self._inlet.scheduler.awake()
        if confirmed or not self._under_way:
            self._heard = now
            self._trouble = ""
        elif now - self._heard > PATIENT:
            self._trigger(f"no broker has confirmed a message for {PATIENT:g} s{self._trouble}")
        if confirmed:
            self._retries.passed()
        self.sink.wake()
        if not self._closed:
            self._poll()

    def _take_reports(self) -> bool:
        """Takes the reports that came. True: a message was confirmed."""
        reports, self._reports = self._reports, []
        self._under_way -= len(reports)
        self._untried -= sum(number not in delivery.failures for delivery, number, _, _ in reports)
        lone, taken = self._lone, 0
        for delivery, count in Counter(delivery for delivery, _, error, _ in reports if error is None).items():
            if delivery in self._held:  # otherwise it was given up
                taken += count
                delivery.left -= count
                if not delivery.left:
                    self._settle(delivery)
        verdicts = [(one, of_report(one[2], alone=lone)) for one in reports if one[2] is not None]
        self._time([seconds for _, _, error, seconds in reports if error is None], "taken")
        for outcome in MessageFate:
            took = [seconds for (_, _, _, seconds), verdict in verdicts if verdict is outcome]
            self._time(took, "refused" if outcome is MessageFate.REJECT else "failed")
        taken += sum(verdict is MessageFate.REJECT for _, verdict in verdicts)  # a broker has answered
        self._retries.took(taken)
        for (delivery, number, error, _), verdict in verdicts:
            if delivery not in self._held or error is None:
                continue
            why = reason_of(error)
            if verdict is MessageFate.ALONE:
                self._waiting.append(_Sending(delivery, [number], alone=True))
                self._sent_again.value += 1
            elif verdict is MessageFate.REJECT:
                self._refuse(delivery, number, (None, why))
            elif verdict is MessageFate.AGAIN or self._inlet.upstream.replaceable:
                self._not_taken(delivery, number, why)
            else:
                self._refuse(delivery, number, (NotConfirmed, why))
        return taken > 0

    def _time(self, seconds: Sequence[float], outcome: RequestOutcome) -> None:
        """From librdkafka's having it to the report. Of messages that are reported together, the slowest."""
        if seconds:
            self._seconds.observe(outcome, max(seconds))

    def _refuse(self, delivery: SentBlock, number: int, refusal: Refusal) -> None:
        delivery.refused[number] = refusal
        delivery.left -= 1
        if not delivery.left:
            self._settle(delivery)

    def _settle(self, delivery: SentBlock) -> None:
        del self._held[delivery]
        delivery.settle(self._inlet)

    # the breaker

    def _trigger(self, reason: str) -> None:
        self._retries.trigger(reason)
        if self._inlet.upstream.replaceable and not self._closed:
            self._retries.wait(reason)

    def unfinished(self) -> Iterable[tuple[Block, int]]:
        """Also what librdkafka has: that may be delivered nevertheless."""
        if self._under_way:
            self._purge()
        self._waiting.clear()
        self._retries.forget()
        held, self._held = self._held, {}
        return ((delivery.block, 0) for delivery in held)

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_exception(KafkaAway(reason))

    # called by librdkafka, from `poll`

    def _on_report(self, delivery: SentBlock, number: int, error: KafkaError | None, message: Message) -> None:
        self._reports.append((delivery, number, error, message.latency() or 0.0))

    def _on_error(self, error: KafkaError) -> None:
        if self._error is None or not self._error.fatal():
            self._error = error


def _ignore(_result: object) -> None: ...


def _is_final(error: KafkaError) -> bool:
    """Asking again within the run does not help."""
    return error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)
