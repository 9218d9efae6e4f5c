"""What all requests together may hold: bodies that are being read, and events that are not acked yet.

A client that sends its body slowly must not keep the others out. So where there is no room, the request that has been read
longest makes it: a good client's body is there soon.
"""

import asyncio

from connectors.http.refusal import HttpRefusal


class RequestMemory:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._reading: dict[BodyReading, None] = {}  # oldest first

    def __repr__(self) -> str:
        return f"<RequestMemory {self.held} of {self.limit} bytes, {len(self._reading)} being read>"

    def begin(self, size: int) -> "BodyReading":
        """For the task that calls it. `size`: what the request holds from the start. Raises HttpRefusal."""
        reading = BodyReading(self)
        try:
            reading.add(size)
        except HttpRefusal:
            reading.release()
            raise
        self._reading[reading] = None
        return reading

    def make_room(self, reading: "BodyReading") -> None:
        """Raises HttpRefusal."""
        while self.held > self.limit:
            oldest = next(iter(self._reading), reading)
            if oldest is reading:
                raise _no_room()
            oldest.give_up()

    def is_read(self, reading: "BodyReading") -> None:
        self._reading.pop(reading, None)


class BodyReading:
    """One request's part. It ends with `release`."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._size = 0
        self._task = asyncio.current_task()
        self._gave_up = False

    def add(self, size: int) -> None:
        """Raises HttpRefusal."""
        self._size += size
        self._memory.held += size
        self._memory.make_room(self)

    def is_read(self) -> None:
        """It makes no room for others any more."""
        self._memory.is_read(self)

    def give_up(self) -> None:
        """To make room: ends the reading, wherever it waits."""
        self.release()
        self._gave_up = True
        if self._task is not None:
            self._task.cancel()

    def made_room(self) -> HttpRefusal | None:
        """What a task that was cancelled answers, if it was for this."""
        if not self._gave_up or self._task is None:
            return None
        self._task.uncancel()
        return _no_room()

    def release(self) -> None:
        self._memory.is_read(self)
        self._memory.held -= self._size
        self._size = 0


def _no_room() -> HttpRefusal:
    return HttpRefusal(
        503, "the requests that are being read or not acked yet take all of the window", later=True, closes=True
    )
