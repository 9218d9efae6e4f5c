"""What an HTTP library says of a connection that was not made, in the words of the system."""

import os


def connect_problem(host: str, port: int | None, error: BaseException) -> str:
    """`error`: the system's, or that of TLS."""
    text = str(error)
    if isinstance(error, OSError):
        text = error.strerror or text
        if (
            error.errno is not None and error.errno > 0 and "Connect call failed" in text
        ):  # asyncio's text has the address again
            text = os.strerror(error.errno)
    line = " ".join((text or type(error).__name__).split())
    return f"cannot connect to {host}:{port}: {line}"
