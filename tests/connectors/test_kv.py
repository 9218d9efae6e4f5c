"""Commands to a store on disk, and their answers."""

import sqlite3
from pathlib import Path

import pytest

from connectors.kv import Kv
from connectors.kv.commands import BadCommand, command_of
from connectors.kv.store import FILE, CannotStore, KvStore
from tests.connectors.asked import AskedConnector, asking
from tests.waiting import until
from walflow.testing.world import MemoryCounter


def kv(path: Path, **config: object) -> Kv:
    return Kv.model_validate({"path": str(path / "store"), **config})


async def done(store: AskedConnector, value: bytes, **command: object) -> list[object]:
    """The answers to one command, which are acked."""
    before = len(store.out.sent)
    store.ask(value, kv=command)
    await until(lambda: len(store.out.sent) > before)
    store.ack()
    return [value for block in store.out.sent[before:] for value in block.values]


async def test_each_command_answers_as_tremors_does(tmp_path: Path) -> None:
    async with asking(kv(tmp_path)) as store:
        assert await done(store, b'{"n":1}', put="a") == [{"n": 1}]
        assert await done(store, b"null", get="a") == [{"n": 1}]
        assert await done(store, b"2", swap="a") == [{"n": 1}]
        assert await done(store, b"3", cas="a", old=2) == [None]
        assert await done(store, b"4", cas="new") == [None]
        assert await done(store, b"5", put=b"\xff") == [5]
        assert await done(store, b"null", scan="a") == [3, 4, 5]
        assert await done(store, b"null", scan="a", end="b") == [3]
        assert await done(store, b"null", delete="a") == [3]
        assert await done(store, b"null", get="a") == [None]
    assert store.metas()[0] == {"kv": {"op": "put", "ok": b"a"}}
    assert store.inlet.counters["commands_total"].value == 10


async def test_what_cannot_be_carried_out_leaves_by_err_and_the_next_command_goes_on(tmp_path: Path) -> None:
    async with asking(kv(tmp_path, max_scan=2)) as store:
        store.ask(b"1", kv={"cas": "a", "old": 2})
        store.ask(b"1", kv={"rename": "a"})
        store.ask(b"1")
        for key in ("a", "b", "c"):
            await done(store, b"1", put=key)
        store.ask(b"1", kv={"scan": ""})
        await until(lambda: len(store.inlet.rejected) == 4)
    reasons = [reason for _, reason in store.inlet.rejected]
    assert reasons == [
        "cas: expected 2 but found nothing",
        "$kv has one of get, put, swap, delete, cas and scan, not none",
        "$kv is no record",
        "the scan finds more than max_scan, 2: name an end",
    ]


async def test_what_was_answered_is_there_after_another_start(tmp_path: Path) -> None:
    async with asking(kv(tmp_path)) as store:
        await done(store, b"1", put="a")
    async with asking(kv(tmp_path)) as store:
        store.ask(b"null", kv={"get": "a"}, correlation="c")
        await until(lambda: store.out.sent)
        assert store.metas() == [{"correlation": "c", "kv": {"op": "get", "ok": b"a"}}]
        assert store.answers() == [1]


async def test_a_command_is_acked_with_its_answer_and_fails_with_it(tmp_path: Path) -> None:
    async with asking(kv(tmp_path)) as store:
        store.out.pause()
        store.ask(b"1", kv={"put": "a"})
        store.ask(b"2", kv={"put": "b"})
        await until(lambda: store.inlet.counters.get("commands_total", MemoryCounter()).value == 2)
        assert not store.inlet.settled
        store.out.resume()
        await until(lambda: len(store.out.sent) == 2)
        store.out.sent[0].receipt.fail(OSError("no"))
        store.out.sent[1].receipt.ack()
        assert ([data for data, _ in store.inlet.failed], store.inlet.acked) == ([b"1\n"], [b"2\n"])


async def test_an_empty_scan_and_a_store_that_no_connector_asks_are_acked_at_once(tmp_path: Path) -> None:
    async with asking(kv(tmp_path)) as store:
        store.ask(b"null", kv={"scan": "a"})
        await until(lambda: store.inlet.acked)
    async with asking(kv(tmp_path), linked=False) as store:
        store.ask(b"1", kv={"put": "a"})
        await until(lambda: store.inlet.acked)


def test_a_store_is_one_connectors_and_no_other_programs(tmp_path: Path) -> None:
    store = KvStore.open(str(tmp_path))
    with pytest.raises(CannotStore, match="locked"):
        KvStore.open(str(tmp_path))
    store.close()
    other = sqlite3.connect(tmp_path / FILE)
    other.execute("PRAGMA application_id = 7")
    other.close()
    with pytest.raises(CannotStore, match="another program"):
        KvStore.open(str(tmp_path))
    (tmp_path / FILE).write_bytes(b"no database, but longer than a header of one would be" * 100)
    with pytest.raises(CannotStore, match="not a database"):
        KvStore.open(str(tmp_path))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ({"get": 1}, "neither a string nor binary"),
        ({"get": "a", "put": "a"}, "not get, put"),
        ({"get": "a", "old": 1}, "no key old beside get"),
        ({"get": "a" * 70_000}, "at most 65,536"),
        ({"cas": "a", "old": b"x"}, "cannot be stored"),
    ],
)
def test_bad_commands(command: object, says: str) -> None:
    with pytest.raises(BadCommand, match=says):
        command_of({"kv": command}, 1)


def test_a_store_whose_file_was_removed_is_one_connectors_and_answers_nothing(tmp_path: Path) -> None:
    store = KvStore.open(str(tmp_path))
    (tmp_path / FILE).unlink()
    with pytest.raises(CannotStore, match="the directory is locked, another process has it"):
        KvStore.open(str(tmp_path))
    store.begin()
    store.put(b"a", b"1")
    with pytest.raises(CannotStore, match="was moved, replaced or removed while it was in use"):
        store.commit()
    store.close()
    KvStore.open(str(tmp_path)).close()


def test_a_store_in_a_directory_that_was_moved_answers_nothing(tmp_path: Path) -> None:
    store = KvStore.open(str(tmp_path / "store"))
    (tmp_path / "store").rename(tmp_path / "aside")
    other = KvStore.open(str(tmp_path / "store"))
    store.begin()
    with pytest.raises(CannotStore, match="was moved, replaced or removed while it was in use"):
        store.commit()
    store.close()
    other.close()
