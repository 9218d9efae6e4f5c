"""Messages of recovery, other than lost positions and torn writes."""

from typing import NamedTuple


class Note(NamedTuple):
    """`file` is empty if the note is about the whole directory. `damage`: no crash explains it. `stays`: a start does
    not change it, so the next one will find it again."""

    file: str
    what: str
    damage: bool = True
    stays: bool = False

    def __str__(self) -> str:
        return f"{self.file} {self.what}" if self.file else self.what
