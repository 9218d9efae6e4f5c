"""`walflow check --spark`: lets Spark check a query before a daemon runs it."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from connectors.spark.config import SparkConfig
from connectors.spark.job.driver import (
    DriverEnd,
    command,
    environment_of,
    explained,
    make_plan,
    outcome_of,
    unstartable,
)
from connectors.spark.job.driver_log import DriverLog
from connectors.spark.job.process import spawn
from walflow import Objection


def probe(config: SparkConfig) -> Sequence[Objection]:
    if not config.runs_spark:
        return ()
    with tempfile.TemporaryDirectory(prefix="walflow-check-") as scratch:
        outcome = asyncio.run(_ask(config, Path(scratch)))
    if outcome is None:
        return ()
    key = "query" if config.query is not None else "job" if config.job is not None else "pipeline"
    shown = [f"| {line}" for line in outcome.excerpt]
    return (Objection(key, outcome.message, "\n".join([*shown, *([outcome.hint] if outcome.hint else [])])),)


async def _ask(config: SparkConfig, scratch: Path) -> DriverEnd | None:
    """The mistake that Spark found; None: there is none."""
    try:
        plan = {**make_plan(config, None, config.address, scratch), "check": True}
        process = await spawn(command(config), plan, environment_of(config, plan), config.stop_grace / 1e9)
    except OSError as error:
        return unstartable(config, error)
    driver_log, outcome = DriverLog(), None
    async with process, asyncio.TaskGroup() as group:
        group.create_task(process.lines("stderr", lambda line: _heard(driver_log, line)))
        group.create_task(process.lines("stdout", lambda line: None))
        async for report in process.reports():
            match report.get("event"):
                case "sound":
                    return None
                case "failed" | "refused":
                    outcome = outcome_of(report, lasting=True)
                case _:
                    pass
    return explained(outcome, driver_log) or DriverEnd(
        f"the driver ended without an answer: {driver_log.decisive or 'see its log with `walflow run`'}"
    )


def _heard(driver_log: DriverLog, line: str) -> None:
    driver_log.feed(line)
