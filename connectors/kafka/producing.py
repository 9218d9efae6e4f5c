"""One run of the sink.

librdkafka has threads of its own. It calls back only from `poll`, and one job at a time polls on the scheduler's thread. It
leaves reports in a list, which the loop takes when the job is over. So callbacks and loop never touch it together.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connectors.kafka.outcomes import MessageFate, of_call, of_report
from connectors.kafka.outgoing import BadMeta, MessageParts, parts_of
from connectors.kafka.settings import KafkaAway, reason_of
from walflow import Backoff, Block, Inlet
from walflow.net import NotConfirmed, SentBlock, on_thread

if TYPE_CHECKING:
    from connectors.kafka.producer import KafkaProducer

POLL: Final = 0.25  # seconds; it returns at the first report
PATIENT: Final = 3.0  # seconds without a report after which the sources are stopped
CONNECT: Final = 10.0  # seconds to find the topic; then the run ends, and the next one begins after a wait
ASK: Final = 0.5  # seconds for one question
FLUSH: Final = 1.0  # seconds for what librdkafka has when the run ends


class _Sending:
    """Events of a block that librdkafka does not have. `alone`: one at a time, with no other message under way. `alike`: the
    parts of each message, if no event has metadata of its own."""

    __slots__ = ("alike", "alone", "delivery", "numbers")

    def __init__(self, delivery: SentBlock, numbers: Sequence[int], *, alone: bool = False) -> None:
        self.delivery = delivery
        self.numbers = deque(numbers)
        self.alone = alone
        self.alike: MessageParts | None = None


class KafkaProducing:
    """`make`: the client, of a configuration."""

    def __init__(self, config: "KafkaProducer", inlet: Inlet, make: Callable[..., Producer] = Producer) -> None:
        self._config = config
        self._inlet = inlet
        self._make = make
        self._waiting: deque[_Sending] = deque()
        self._failed: list[_Sending] = []  # to be sent again when the wait is over
        self._held: dict[SentBlock, None] = {}
        self._under_way = 0  # messages that librdkafka has
        self._lone = False  # the message under way is one
        self._in_wait = self._producing = self._triggered = self._closed = False
        self._backoff = Backoff(0.1, 10.0)
        self._heard = 0.0
        self._away = ""  # why nothing can be sent yet
        self._trouble = ""  # what librdkafka said since it was heard last
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent = inlet.counter("messages_total")
        self._sent_again = inlet.counter("retried_messages_total")
        # written by the thread that polls, taken by the loop when no job is in the air
        self._reports: list[tuple[SentBlock, int, KafkaError | None]] = []
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
        self._inlet.serve(self.accept)
        self._poll()
        try:
            await self._ended
        finally:
            self._closed = True
            try:
                if self._under_way:
                    await on_thread(self._inlet.scheduler, lambda: _ignore(producer.flush(FLUSH)))
            finally:
                self._take_reports()
                self._fail_held("walflow has stopped")

    async def _find_topic(self, producer: Producer) -> None:
        """Raises KafkaAway."""
        clock = self._inlet.scheduler.awake
        end = clock() + CONNECT
        while (problem := await on_thread(self._inlet.scheduler, lambda: self._look(producer))) is not None:
            if problem != self._away:
                self._away = problem
                self._inlet.log.warning("kafka", reason=problem)
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

    def accept(self, block: Block) -> None:
        delivery = SentBlock(block, self._inlet.messages(block))
        self._held[delivery] = None
        self._waiting.append(_Sending(delivery, range(delivery.left)))
        if self._triggered and self._inlet.replaceable:
            self._fail_held("the brokers are away")
        else:
            self._produce()

    def _produce(self) -> None:
        if self._producing:  # an outcome may bring the next block
            return
        self._producing = True
        try:
            while self._waiting and not self._in_wait and self._produce_first(self._waiting[0]):
                self._waiting.popleft()
        finally:
            self._producing = False

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
                self._refuse(delivery, number, str(error), never=True)
            except KafkaException as error:
                self._not_sent(delivery, number, error.args[0])
            else:
                self._lone = sending.alone
                if not self._under_way:
                    self._heard = self._inlet.scheduler.awake()
                self._under_way += 1
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
            self._refuse(delivery, number, f"no message: {reason_of(error)}", never=True)
        else:
            self._failed.append(_Sending(delivery, [number]))
            self._wait(reason_of(error))

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
        if confirmed and not self._in_wait:
            self._backoff.reset()
            self._restore()
        self._produce()
        if not self._closed:
            self._poll()

    def _take_reports(self) -> bool:
        """True: a message was confirmed."""
        reports, self._reports = self._reports, []
        self._under_way -= len(reports)
        lone, confirmed = self._lone, False
        again: dict[SentBlock, list[int]] = {}
        why = ""
        for delivery, count in Counter(delivery for delivery, _, error in reports if error is None).items():
            if delivery in self._held:  # otherwise it was given up
                confirmed = True
                delivery.left -= count
                if not delivery.left:
                    self._settle(delivery)
        for delivery, number, error in reports:
            if error is None or delivery not in self._held:
                continue
            verdict = of_report(error, alone=lone)
            why = reason_of(error)
            if verdict is MessageFate.ALONE:
                self._waiting.append(_Sending(delivery, [number], alone=True))
                self._sent_again.value += 1
            elif verdict is MessageFate.AGAIN and not self._inlet.replaceable:
                again.setdefault(delivery, []).append(number)
            else:
                self._refuse(delivery, number, why, never=verdict is MessageFate.REJECT)
                confirmed = confirmed or verdict is MessageFate.REJECT  # a broker has answered
                if verdict is not MessageFate.REJECT and self._inlet.replaceable:
                    self._trigger(why)
        if again:
            self._failed += [_Sending(delivery, numbers) for delivery, numbers in again.items()]
            self._sent_again.value += sum(map(len, again.values()))
            self._wait(why)
        return confirmed

    def _refuse(self, delivery: SentBlock, number: int, reason: str, *, never: bool) -> None:
        delivery.refused[number] = (never, reason)
        delivery.left -= 1
        if not delivery.left:
            self._settle(delivery)

    def _settle(self, delivery: SentBlock) -> None:
        del self._held[delivery]
        delivery.settle(self._inlet)

    # the breaker

    def _wait(self, reason: str) -> None:
        """Before what has failed is sent again, in its old place."""
        if self._in_wait:
            return
        self._in_wait = True
        self._trigger(reason)
        self._inlet.scheduler.call_later(self._backoff.next(), self._go_on)

    def _go_on(self) -> None:
        self._in_wait = False
        self._waiting.extendleft(reversed(self._failed))
        self._failed = []
        if self._inlet.replaceable:
            self._restore()  # the next event is to show whether it can be sent
        self._produce()

    def _trigger(self, reason: str) -> None:
        if not self._triggered:
            self._inlet.log.warning("cannot deliver", topic=self._config.topic, reason=reason)
        self._triggered = True
        self._inlet.trigger(reason)
        if self._inlet.replaceable and not self._closed:
            self._fail_held(reason)
            self._wait(reason)

    def _restore(self) -> None:
        if self._triggered:
            self._triggered = False
            self._inlet.restore()

    def _fail_held(self, reason: str) -> None:
        """All of it, also what librdkafka has: that may be delivered nevertheless."""
        if self._under_way:
            self._purge()
        self._waiting.clear()
        self._failed = []
        held, self._held = self._held, {}
        for delivery in held:
            self._inlet.fail(delivery.block, NotConfirmed(reason))

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_exception(KafkaAway(reason))

    # called by librdkafka, from `poll`

    def _on_report(self, delivery: SentBlock, number: int, error: KafkaError | None, _message: Message) -> None:
        self._reports.append((delivery, number, error))

    def _on_error(self, error: KafkaError) -> None:
        if self._error is None or not self._error.fatal():
            self._error = error


def _ignore(_result: object) -> None: ...


def _is_final(error: KafkaError) -> bool:
    """Asking again within the run does not help."""
    return error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)
