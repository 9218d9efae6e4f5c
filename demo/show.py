"""What a person sees of it: on a terminal a live line below what happened, elsewhere plain text."""

from collections import deque
from contextlib import AbstractContextManager
from typing import Final, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.ledger import Ledger

BARS: Final = " ▁▂▃▄▅▆▇█"
KEPT: Final = 60  # looks at the rate that are drawn
PLAIN_EVERY: Final = 2.0  # seconds between lines of progress where nothing can be drawn over


class Show(AbstractContextManager["Show"]):
    def __init__(self, console: Console, seconds: float) -> None:
        self._console = console
        self._seconds = seconds
        self._rates: deque[float] = deque(maxlen=KEPT)
        self._all_rates: list[float] = []
        self._said = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=10, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, elapsed: float, sign: str, text: str, style: str = "") -> None:
        line = Text.assemble((f"{elapsed:6.1f} s  ", "dim"), (f"{sign} ", style), Text.from_markup(text))
        self._console.print(line, highlight=False)

    def progress(self, elapsed: float, sent: int, echoed: int, rate: float, kills: int) -> None:
        """Called every quarter of a second."""
        self._rates.append(rate)
        self._all_rates.append(rate)
        if self._live is not None:
            self._live.update(self._board(elapsed, sent, echoed, rate, kills))
        elif elapsed - self._said >= PLAIN_EVERY:
            self._said = elapsed
            self.say(elapsed, "·", f"{sent:>11,} sent {echoed:>11,} echoed {rate:>9,.0f} a second")

    def pulse(self) -> str:
        """The whole run's rate as a line of bars: the gaps are the kills."""
        return _bars(self._all_rates)

    def _board(self, elapsed: float, sent: int, echoed: int, rate: float, kills: int) -> RenderableType:
        facts = Table.grid(padding=(0, 3))
        facts.add_row(
            Text.assemble((f"{sent:,}", "bold"), " sent"),
            Text.assemble((f"{echoed:,}", "bold"), " echoed"),
            Text.assemble((f"{rate:,.0f}", "bold"), " a second"),
            Text.assemble((f"{kills}", "bold red"), " killed"),
        )
        board = Table.grid()
        board.add_row(ProgressBar(total=self._seconds, completed=min(elapsed, self._seconds), width=KEPT))
        board.add_row(Text(_bars(self._rates), "green"))
        board.add_row(facts)
        return Padding(board, (1, 0, 0, 9))


def _bars(rates: "deque[float] | list[float]") -> str:
    highest = max(rates, default=0) or 1
    return "".join(BARS[min(8, round(rate / highest * 8))] for rate in rates)


def print_ledger(console: Console, ledger: Ledger) -> None:
    faults = ledger.faults
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    again = f"and {ledger.sent_again:,} again, not echoed when the server died" if ledger.sent_again else ""
    table.add_row("sent", _count(ledger.sent), again)
    table.add_row("echoed", _count(ledger.echoed), "")
    table.add_row("in the file", _count(ledger.in_file), f"{ledger.distinct:,} different ones")
    table.add_row("  there twice", _count(ledger.repeated), "sent again by their client, by design: at least once")
    table.add_section()
    for name, count, meaning in (
        ("missing", faults.missing, "echoed, and not in the file"),
        ("altered, torn", faults.altered, "in the file, and not as it was sent"),
        ("duplicated", faults.duplicated, "sent once, twice in the file: walflow's own doing"),
        ("out of order", faults.disordered, "behind a later line of its connection"),
        ("altered echoes", faults.altered_echoes, "came back as a line that was not sent"),
        ("foreign echoes", faults.foreign_echoes, "came back to another client"),
        ("unasked echoes", faults.unasked_echoes, "came back again, or out of turn"),
    ):
        table.add_row(name, Text(f"{count:,}", "bold red" if count else "bold green"), meaning)
    console.print(Padding(table, (0, 0, 0, 2)), highlight=False)


def _count(number: int) -> Text:
    return Text(f"{number:,}", "bold")
