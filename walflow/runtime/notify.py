"""systemd's notification protocol (sd_notify(3)): datagrams of KEY=value lines to the socket in NOTIFY_SOCKET."""

import os
import socket
import time
from collections.abc import MutableMapping
from typing import Self


class Notifier:
    """Sends nothing if no service manager asked for it. It never fails: the listener may be gone while the flows run
    on. `watchdog`: the seconds within which WATCHDOG=1 is expected, again and again; None: no watchdog is set.
    """

    def __init__(self, address: str | None, watchdog: float | None = None) -> None:
        self.watchdog = watchdog if address else None
        # an @ stands for the zero byte that an abstract address begins with
        self._address = f"\0{address[1:]}" if address and address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) if address else None
        if self._socket is not None:
            self._socket.setblocking(False)

    @property
    def heard(self) -> bool:
        """A service manager waits for what is said."""
        return self._socket is not None

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self:
        """Removes the variables from the environment, so that no child process speaks for this one."""
        address = environment.pop("NOTIFY_SOCKET", None)
        microseconds = environment.pop("WATCHDOG_USEC", "")
        watched = environment.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        if address is not None and not address.startswith(("/", "@")):
            address = None  # a vsock: none of ours
        return cls(address, int(microseconds) / 1e6 if microseconds.isdigit() and watched else None)

    def say(self, *lines: str) -> bool:
        """False: nobody takes it now."""
        if self._socket is None or self._address is None:
            return True
        try:
            self._socket.sendto("\n".join(lines).encode(errors="replace"), self._address)
        except OSError:
            return False
        return True

    def status(self, text: str) -> None:
        """One line that `systemctl status` shows."""
        line = " ".join(text.split())
        self.say("STATUS=" + "".join(char if char.isprintable() else "?" for char in line))

    def reloading(self) -> None:
        self.say("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")  # systemd compares it with its own

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
