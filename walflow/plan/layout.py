"""Where boxes stand: in columns, left to right as events go.

Sugiyama's method in its simplest form: links that lead back are set aside, a box stands one column behind the last
that sends to it, and columns are sorted by the middle of their neighbours until the lines cross little. Flow files
are small, so nothing cleverer pays.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)

ROUNDS = 8  # of sorting; a column settles after a few


class BoxPlace(NamedTuple):
    column: int
    row: int


def places(nodes: Sequence[T], links: Sequence[tuple[T, T]]) -> dict[T, BoxPlace]:
    """Every node alone in its place, rows from 0 without a gap."""
    backward = leading_back(nodes, links)
    forward = [link for link in dict.fromkeys(links) if link not in backward]
    columns: list[list[T]] = []
    for node, column in _columns(nodes, forward).items():
        while len(columns) <= column:
            columns.append([])
        columns[column].append(node)
    for number in range(ROUNDS):
        _sort(columns, forward, rightward=number % 2 == 0)
    return {node: BoxPlace(c, r) for c, column in enumerate(columns) for r, node in enumerate(column)}


def leading_back(nodes: Sequence[T], links: Sequence[tuple[T, T]]) -> set[tuple[T, T]]:
    """Links without which nothing goes round: those to where a walk along them came from."""
    after: dict[T, list[T]] = {node: [] for node in nodes}
    entered = dict.fromkeys(nodes, 0)
    for source, target in links:
        after[source].append(target)
        entered[target] += 1
    back: set[tuple[T, T]] = set()
    done: set[T] = set()
    for begin in sorted(nodes, key=lambda node: entered[node] > 0):  # first where nothing leads to
        _walk(begin, after, done, back)
    return back


def _walk(begin: T, after: Mapping[T, Sequence[T]], done: set[T], back: set[tuple[T, T]]) -> None:
    path: dict[T, int] = {begin: 0}  # how many of its links were taken
    while path:
        node, taken = next(reversed(path.items()))
        if node in done or taken == len(after[node]):
            done.add(node)
            path.popitem()
            continue
        path[node] = taken + 1
        target = after[node][taken]
        if target in path:
            back.add((node, target))
        elif target not in done:
            path[target] = 0


def _columns(nodes: Sequence[T], forward: Sequence[tuple[T, T]]) -> dict[T, int]:
    column = dict.fromkeys(nodes, 0)
    for _ in nodes:  # as often as a longest way is long
        before = dict(column)
        for source, target in forward:
            column[target] = max(column[target], column[source] + 1)
        if column == before:
            break
    return column


def _sort(columns: list[list[T]], forward: Sequence[tuple[T, T]], *, rightward: bool) -> None:
    order = columns if rightward else columns[::-1]
    row: dict[T, float] = {node: at for column in columns for at, node in enumerate(column)}
    for column in order[1:]:
        middles: dict[T, float] = {}
        for node in column:
            near = [a if rightward else b for a, b in forward if node == (b if rightward else a)]
            middles[node] = sum(row[one] for one in near) / len(near) if near else row[node]
        column.sort(key=middles.__getitem__)
        row |= {node: at for at, node in enumerate(column)}
