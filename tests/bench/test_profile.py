"""The profile of a block names the steps that there are. No test looks at a speed."""

from bench.evaluation import SELECTS, lines
from bench.profile import Steps, steps, table


def test_what_is_passed_on_is_not_written_and_what_is_made_is() -> None:
    frames = lines(misfits=False)
    kept = steps(SELECTS["where, one member"], frames, rounds=1)
    made = steps(SELECTS["patch insert"], frames, rounds=1)

    assert min(kept.validate, kept.decode, kept.evaluate) > 0
    assert (kept.check, kept.write) == (0, 0)
    assert min(made.validate, made.decode, made.evaluate, made.check, made.write) > 0


def test_each_step_is_divided_by_what_passing_on_takes() -> None:
    [head, passed, row] = table({"a select": Steps(2, 1, 4, 0, 3, 1)}).splitlines()

    assert head.split()[2:] == ["validate", "decode", "evaluate", "check", "write", "rest", "sum"]
    assert passed.split() == ["pass", "1.00", "1.00"]
    assert row.split() == ["a", "select", "1.00", "0.50", "2.00", "0.00", "1.50", "0.50", "5.50"]
