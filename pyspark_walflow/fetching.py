"""What a worker does: it fetches the rows of a range, over a connection that it keeps for the next one."""

import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyspark_walflow.client import Client, LostPositions, integer
from pyspark_walflow.columns import Columns, find_crc, first_of
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.options import Options
from pyspark_walflow.planner import Patience, line_of
from pyspark_walflow.reuse import settle
from pyspark_walflow.wire import Code, Damaged, FrameKind, RequestRefused, WireKey


class Range(InputPartition):
    """Positions `first` to `end`, the latter excluded, and the ticket that opens them."""

    def __init__(self, first: int, end: int, log: str, ticket: WireKey) -> None:
        self.first = first
        self.end = end
        self.log = log
        self.ticket = ticket

    def __repr__(self) -> str:
        return f"Range({self.first}, {self.end})"


def fetch(options: Options, wanted: Range, consumer: str) -> Iterator[pa.RecordBatch]:
    """All rows of the range, in order. What does not come is said, never left out. Raises WalflowError."""
    crc = find_crc()
    columns = Columns(binary=options.binary, crc=crc, metadata=options.metadata)
    patience = Patience(options.endpoint)
    position = wanted.first
    while position < wanted.end:
        client: Client | None = None
        try:
            client = _take(options, wanted)
            for found in client.read(position, wanted.end, consumer, summed=crc is None):
                if isinstance(found, LostPositions):
                    position = _lost(options, found, position)
                    continue
                for batch in columns.batches(*found, position, wanted.end):
                    _expect(position, batch)
                    yield batch
                    position += batch.num_rows
                patience.renew()
            if position < wanted.end:
                raise WalflowError(
                    f"positions {position} to {wanted.end - 1} did not come, and the daemon did not say why"
                )
            _give_back(options, wanted, client)
            client = None
        except (OSError, Damaged) as error:
            patience.wait(error, options.retry_seconds)
        except RequestRefused as error:
            if error.code == Code.BELOW_FLOOR and not options.fail_on_data_loss and client is not None:
                position = _skip(options, client, position, wanted.end)
            else:
                patience.wait(error, options.retry_seconds)
        finally:
            if client is not None:
                client.close()
    settle()


def _expect(position: int, batch: pa.RecordBatch) -> None:
    came = first_of(batch)
    if came != position:
        raise WalflowError(f"position {position} was to come, {came} came")


def _lost(options: Options, lost: LostPositions, position: int) -> int:
    line = f"positions {lost.first} to {lost.last} are lost: {lost.reason}"
    if lost.empty and lost.first <= position:
        return max(position, lost.last + 1)
    if options.fail_on_data_loss:
        raise WalflowError(f'{line}; option("failOnDataLoss", "false") goes on behind them')
    if lost.first > position:
        raise WalflowError(f"positions {position} to {lost.first - 1} did not come, and the daemon did not say why")
    tell(f"{line}; failOnDataLoss is false, so it goes on behind them")
    return max(position, lost.last + 1)


def _skip(options: Options, client: Client, position: int, end: int) -> int:
    try:
        floor = min(integer(client.call(FrameKind.HEAD, {}), "floor"), end)
    except (OSError, RequestRefused, Damaged) as error:
        raise WalflowError(line_of(error, options.endpoint)) from None
    if floor > position:
        tell(f"positions {position} to {floor - 1} are gone; failOnDataLoss is false, so it goes on behind them")
    return floor


# One connection, of the last task of this process: the next one is likely of the same query. Spark gives a process one
# task at a time.
_kept: dict[tuple[object, ...], Client] = {}


def _take(options: Options, wanted: Range) -> Client:
    client = _kept.pop(_name(options, wanted), None)
    forget()
    return client or Client(options.endpoint, wanted.ticket, wanted.log)


def _give_back(options: Options, wanted: Range, client: Client) -> None:
    _kept[_name(options, wanted)] = client


def forget() -> None:
    """Closes what is kept."""
    while _kept:
        _kept.popitem()[1].close()


def _name(options: Options, wanted: Range) -> tuple[object, ...]:
    return os.getpid(), options.endpoint, wanted.log, wanted.ticket.secret


def tell(line: str) -> None:
    sys.stderr.write(f"walflow: {line}\n")
    sys.stderr.flush()
