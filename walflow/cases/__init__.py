"""Folders with a pipeline, a script or a flow, an input, and what is expected of it: `walflow test`.

`folder` finds the cases and reads their files. `subject` makes of the pipeline, or of the flow with its connectors
taken away, an Assembly whose ends are the test's. `host` sends the input through the daemon's own nodes, with the
clock of the test, and keeps what leaves by each end. `compare` says what differs from what is expected, and `judge`
does all this for one case. `suites` finds and runs tests that stand in scripts, as tremor has them. `junit` writes
the file that CI servers read.

    for case in find([Path("tests/language")]).cases:
        print(case.name, judge(case).problems)
"""

from walflow.cases.folder import BadCase, Case, find
from walflow.cases.judge import Judgement, judge, update
from walflow.cases.suites import SuiteTest, find_suites

__all__ = ["BadCase", "Case", "Judgement", "SuiteTest", "find", "find_suites", "judge", "update"]
