"""A connection that was not made, in the words of the system."""

import errno
import ssl

import pytest

from walflow.net import connect_problem


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ECONNREFUSED, "Connect call failed ('10.0.0.7', 80)"), "Connection refused"),
        (OSError(-2, "Name or service not known"), "Name or service not known"),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "certificate verify failed"),
        (ValueError("two\nlines"), "two lines"),
        (OSError(), "OSError"),
    ],
)
def test_it_names_the_peer_once_and_no_tls(error: BaseException, said: str) -> None:
    assert connect_problem("peer", 80, error) == f"cannot connect to peer:80: {said}"
