"""One row that fails takes its own figures with it and nobody else's. No test looks at a speed."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench.cases import Case, Figures, Floor, Timing
from bench.rounds import in_turn
from bench.systems import WrongResult


def counting(order: list[str], name: str, fails_at: int = 0) -> Callable[[Path, float, float], Figures]:
    def work(workdir: Path, warmup: float, seconds: float) -> Figures:
        assert list(workdir.iterdir()) == []
        (workdir / "left").write_text("over")
        order.append(name)
        if order.count(name) == fails_at:
            raise WrongResult(f"{name}: 2 events were sent, 1 came back")
        return {"number": order.count(name)}

    return work


def test_rows_take_turns_and_one_that_fails_has_no_figures(tmp_path: Path) -> None:
    order: list[str] = []
    cases: list[Case] = [
        Floor("first", "the first", counting(order, "first")),
        Floor("fails", "one that fails", counting(order, "fails", fails_at=2)),
        Floor("once", "one that takes long", counting(order, "once"), once=True),
        Floor("absent", "one that is not there", counting(order, "absent")),
    ]
    missing = {"absent": "no such program"}

    found = in_turn(cases, 3, Timing(0, 1), tmp_path, Console(quiet=True), missing)

    assert order == ["first", "fails", "once", "fails", "first", "first"]
    assert found == {
        "first": [{"number": 1}, {"number": 2}, {"number": 3}],
        "fails": [],
        "once": [{"number": 1}],
        "absent": [],
    }
    assert missing == {"absent": "no such program", "fails": "failed: fails: 2 events were sent, 1 came back"}
    assert list(tmp_path.iterdir()) == []
