"""The page of a new user's first session is what comes back when it is typed: from a wheel, in terminals."""

import pytest

from demo.newcomer import PAGE, Page, session


@pytest.mark.nightly
def test_the_first_session() -> None:
    """`make transcript` writes it anew."""
    assert session() == PAGE.read_text("utf-8")


def test_what_differs_is_masked() -> None:
    page = Page({"20001": "65535", "walflow 9.8.8": "walflow 1.0.1"})
    printed = (
        "walflow 9.8.8\r\n\x1b[1mwalflow 9.8.7\x1b[0m, pid 17, up 2 min: ready\r\n"
        " :20001 120001\r\n a  read/s acked/s disk\r\n b    17.5       0  32M\r\n"
    )
    assert page.masked(printed) == [
        "walflow 1.0.1",
        "walflow 1.0.0, pid 4242, up 9 s: ready",
        " :65535 120001",
        " a  read/s acked/s disk",
        " b     1.0     1.0  16M",
    ]
