import pytest
from pydantic import ValidationError

from walflow.net import Reconnect


def waits(count: int, **retry: object) -> list[float | None]:
    reconnect = Reconnect.model_validate({"retry": retry})
    backoff = reconnect.retry.backoff(lambda low, high: (low + high) / 2)
    return [None if backoff.gave_up else wait for wait in (backoff.next() for _ in range(count))]


def test_the_defaults_grow_to_ten_seconds_and_never_end() -> None:
    grown = waits(30, randomized=False)
    assert grown[:4] == pytest.approx([0.1, 0.15, 0.225, 0.3375])
    assert grown[20:] == [10.0] * 10


def test_jitter_lies_between_one_wait_and_the_next() -> None:
    assert waits(3) == pytest.approx([0.1, 0.125, 0.1875])


def test_a_long_interval_is_kept() -> None:
    assert waits(3, interval_ms=60_000, growth_rate=2, randomized=False) == [60, 60, 60]


def test_it_gives_up_and_begins_anew_after_success() -> None:
    assert waits(3, max_retries=2, growth_rate=1, randomized=False) == [0.1, 0.1, None]
    backoff = Reconnect().retry.backoff()
    assert backoff.next() == 0.1
    backoff.next()
    backoff.reset()
    assert backoff.next() == 0.1


@pytest.mark.parametrize("retry", [{"interval_ms": 0}, {"growth_rate": 0.5}, {"max_retries": -1}, {"intervall": 1}])
def test_what_it_refuses(retry: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Reconnect.model_validate({"retry": retry})
