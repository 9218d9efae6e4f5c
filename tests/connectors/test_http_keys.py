"""Keys of an earlier run, as the log has them."""

import time
from collections.abc import Sequence

import pytest

from connectors.http.keys import KeyWindow, logged
from connectors.http.refusal import HttpRefusal, HttpReply
from walflow import Recalled

DIGEST = b"d" * 16
SECONDS = 600.0


def window(*events: Recalled, reply: HttpReply | None = None, at: float = 1000.0) -> KeyWindow:
    keys = KeyWindow(SECONDS, 10, lambda: at)
    keys.recall(events, reply)
    return keys


def recalled(*parts: int, of: int, key: str = "POST / a", age: float = 0.0, number: int = 1) -> Sequence[Recalled]:
    """Blocks of a request of `of` events."""
    stamp = int((time.time() - age) * 1e9)
    return [Recalled(logged(key, DIGEST, of, number), part, stamp) for part in parts]


@pytest.mark.parametrize("parts", [(3,), (1, 2), (1, 1, 1)])
def test_a_request_that_is_in_the_log_is_known(parts: Sequence[int]) -> None:
    known = window(*recalled(*parts, of=3)).find("POST / a", DIGEST)
    assert known is not None
    assert (known.answer, known.outcome.settled, known.outcome.cause) == (b'{"events":3}\n', True, None)


def test_of_another_body_it_is_refused() -> None:
    with pytest.raises(HttpRefusal, match="with another body"):
        window(*recalled(1, of=1)).find("POST / a", b"e" * 16)


@pytest.mark.parametrize("parts", [(), (2,), (1, 1)])
def test_a_request_of_which_a_part_is_missing_is_not_known(parts: Sequence[int]) -> None:
    assert window(*recalled(*parts, of=3)).find("POST / a", DIGEST) is None


def test_two_halves_of_two_requests_are_no_whole() -> None:
    halves = [*recalled(2, of=4, number=1), *recalled(2, of=4, number=2)]
    assert window(*halves).find("POST / a", DIGEST) is None


@pytest.mark.parametrize("value", [None, 1, "x", {}, {"key": 1}, {**logged("k", b"", 1, 1), "digest": "x"}])
def test_what_is_none_of_ours_is_passed_over(value: object) -> None:
    assert len(window(Recalled(value, 1, 0))) == 0


@pytest.mark.parametrize(("age", "known"), [(-3600.0, True), (599.0, True), (601.0, False), (1e6, False)])
def test_it_is_known_for_what_is_left_of_the_window(age: float, known: bool) -> None:
    moments = [1000.0]
    keys = KeyWindow(SECONDS, 10, lambda: moments[-1])
    keys.recall(recalled(1, of=1, age=age), None)
    moments.append(1000.5)
    assert (keys.find("POST / a", DIGEST) is not None) is known
    moments.append(1000.0 + SECONDS + 1)
    assert keys.find("POST / a", DIGEST) is None


def test_no_more_keys_than_are_remembered() -> None:
    events = [one for number in range(30) for one in recalled(1, of=1, key=f"POST / {number}")]
    keys = window(*events)
    assert len(keys) == 10
    assert keys.find("POST / 29", DIGEST) is not None


def test_where_the_flow_answers_it_has_the_answer_that_is_given() -> None:
    reply = HttpReply(500, b"the flow gave no answer")
    known = window(*recalled(1, of=1), reply=reply).find("POST / a", DIGEST)
    assert known is not None
    assert known.outcome.reply is reply
