"""tremor::chash."""

import pytest
from hypothesis import given, strategies as st

from tests.walflow_kernel.std.world import gives, refuses


@pytest.mark.parametrize(
    ("key", "slots", "slot"),
    [("test1", 10_000_000, 8_970_050), ("test2", 1000, 10), ("test3", 1000, 76), ("test4", 1000, 161),
     ("test5", 50, 33),
     ("", 1000, 392)],
)  # fmt: skip
def test_slots_are_the_ones_that_tremors_library_gives(key: str, slots: int, slot: int) -> None:
    assert gives("chash::jump_with_keys(0, 0, event.k, event.n)", {"k": key, "n": slots}) == slot


def test_jump_is_the_same_by_tremors_own_numbers() -> None:
    text = "chash::jump_with_keys(8_390_880_576_440_238_080, 128_034_676_764_530, event, 1000)"
    assert gives("chash::jump(event, 1000)", "key") == gives(text, "key")


@given(st.text(max_size=40), st.integers(1, 1000))
def test_more_slots_leave_a_key_where_it_is_or_give_it_the_new_one(key: str, slots: int) -> None:
    event = {"k": key, "n": slots, "m": slots + 1}
    before, after = gives("chash::jump(event.k, event.n)", event), gives("chash::jump(event.k, event.m)", event)
    assert after in {before, slots}


@pytest.mark.parametrize(
    ("text", "event", "why"),
    [
        ('chash::jump("a", event)', 0, "`slot_count` is from 1 to 4294967295, not 0"),
        ('chash::jump("a", event)', -1, "`slot_count` is from 1 to 4294967295, not -1"),
        ('chash::jump("a", event)', 2**32, "`slot_count` is from 1 to 4294967295, not 4294967296"),
        ('chash::jump("a", event)', 1.0, "`slot_count` takes a whole number, not a decimal number"),
        ("chash::jump(event, 1)", "x" * 4097, "`key` is longer than 4096 bytes"),
        ("chash::jump(event, 1)", "\ud800", "a character that UTF-8 cannot hold"),
        ("chash::jump(event, 1)", b"x", "`key` takes a string, not binary data"),
        ("chash::sorted_serialize(event)", b"x", "not JSON: binary data"),
    ],
)
def test_what_it_refuses(text: str, event: object, why: str) -> None:
    assert why in refuses(text, event)


@given(st.dictionaries(st.text(alphabet="abc", max_size=2), st.integers(0, 3) | st.lists(st.booleans(), max_size=2)))
def test_equal_values_are_the_same_text(record: dict[str, object]) -> None:
    turned = dict(reversed(record.items()))
    assert gives("chash::sorted_serialize(event)", record) == gives("chash::sorted_serialize(event)", turned)
