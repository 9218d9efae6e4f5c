"""Which pipelines with state are dealt to several buckets, and why the others are not."""

from pathlib import Path

import pytest

from walflow.plan.second_host import load_pipeline
from walflow_kernel.shipped import Keeping

FLOW = """
define pipeline p
into out, other, err
{args}
pipeline
  use std::random;
  use std::win;
  define window few from tumbling with size = 3 end;
  define window soon from tumbling with interval = 1_000_000_000 end;
  define window bounded from tumbling with size = 3, max_groups = 5 end;
  define window small from tumbling with size = 3, max_bytes = 5000 end;
  define script counter
  script
    let state = match state of case null => 0 default => state + 1 end;
    event
  end;
  define script plain
  script let event.g = event.host; event end;
  create script counter;
  create script plain;
  create stream s;
  {body}
end;
"""
COUNT = '{"g": group[0], "n": aggr::stats::count()}'
BY_HOST = f"select {COUNT} from in[few] group by event.host into out;"


def keeping(directory: Path, body: str, args: str = "", **given: object) -> Keeping | None:
    file = directory / "flow.troy"
    file.write_text(FLOW.format(body=body, args=args))
    shipped, found = load_pipeline(file, "p", given)
    assert shipped is not None, found
    return shipped.keeping


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (BY_HOST, None),
        (f"select {COUNT} from in[few, soon] group by set(event.host, event.n) into out;", None),
        (f"select event from in into plain; select {COUNT} from plain[soon] group by event.g into out;", None),
        (f"{BY_HOST} select {COUNT} from in[soon] where event.n > 1 group by event.host into other;", None),
        (f"{BY_HOST} select event from in into other;", None),
        (f"select {COUNT} from in[few] into out;".replace("group[0]", "1"), "all events are one group"),
        (f"select {COUNT} from in[few] group by each(event.hosts) into out;", "by `each`"),
        (f"select {COUNT} from in[bounded] group by event.host into out;", "`max_groups` counts all groups"),
        (f"select {COUNT} from in[small] group by event.host into out;", "`max_bytes` counts what all groups keep"),
        (
            'select {"n": win::cardinality()} from in[few] group by event.host into out;',
            "`win::cardinality` counts all groups",
        ),
        (
            f"{BY_HOST} select {COUNT} from in[few] group by event.path into other;",
            "selects with windows have different `group by`",
        ),
        (
            f"select event from in into s; {BY_HOST} select {COUNT} from s[few] group by event.host into other;",
            "windows stand at several places",
        ),
        (
            (
                "select event from in into s; select event from in into s; "
                f"select {COUNT} from s[few] group by event.host into out;"
            ),
            "by several ways",
        ),
        (
            f"select event from in into counter; select {COUNT} from counter[few] group by event.host into out;",
            "script `counter` has a `state`",
        ),
        (
            f"select {COUNT} from in[few] group by random::integer(0, 3) into out;",
            "it draws random numbers",
        ),
    ],
)
def test_what_may_be_dealt(body: str, why: str | None, tmp_path: Path) -> None:
    found = keeping(tmp_path, body)
    assert found is not None
    if why is None:
        assert (found.buckets, found.single, list(found.dealers)) == (8, None, ["in"])
    else:
        assert (found.buckets, list(found.dealers)) == (1, [])
        assert why in (found.single or "")


def test_what_keeps_nothing_is_not_dealt(tmp_path: Path) -> None:
    assert keeping(tmp_path, "select event from in into plain; select event from plain into out;") is None


def test_only_what_no_window_takes_and_no_other_way_does_is_left_out(tmp_path: Path) -> None:
    where = BY_HOST.replace("group by", "where event.n > 1 group by")
    for body, dropping in [
        (where, True),
        (f"select event from in into plain; {where.replace('from in', 'from plain')}", True),
        (f"{where} select event from in into other;", False),
        (f"{where} select {COUNT} from in[soon] group by event.host into other;", False),
    ]:
        found = keeping(tmp_path, body)
        assert found is not None
        assert found.dropping == dropping, body


def test_the_identity_is_of_what_the_pipeline_does(tmp_path: Path) -> None:
    def identity(body: str, **args: object) -> str:
        declared = "args least = 1" if args else ""
        found = keeping(tmp_path, body, declared, **args)
        assert found is not None
        return found.identity

    first = identity(BY_HOST)
    assert identity(f"  # said differently\n\n{BY_HOST.replace(' into', '   into')}") == first
    others = [
        BY_HOST.replace("few", "soon"),
        BY_HOST.replace("event.host", "event.path"),
        BY_HOST.replace("count()", "sum(event.n)"),
        BY_HOST.replace("group by", "where event.n > 1 group by"),
        f"{BY_HOST} select event from in into other;",
    ]
    with_args = BY_HOST.replace("group by", "where event.n > args.least group by")
    assert identity(with_args, least=1) == identity(others[3]), "what is compared with is 1, wherever it was written"
    found = [first, *map(identity, others), identity(with_args, least=2)]
    assert len(set(found)) == len(found)
