import asyncio

from connectors.null import Null
from walflow.contract import CodecUse, Guarantee
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler


async def test_it_swallows_and_says_nothing() -> None:
    scheduler = VirtualScheduler()
    inlet, outlet = MemoryInlet(scheduler), MemoryOutlet(scheduler)
    inlet.give(inlet.lines_of(b"1"))
    task = asyncio.ensure_future(Null().run(inlet, outlet))
    await scheduler.settle()
    inlet.give(inlet.lines_of(b"2", b"3"))
    assert inlet.acked == [b"1\n", b"2\n3\n"]
    assert outlet.streams == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


def test_what_it_says_of_itself() -> None:
    assert Null.traits.codec is CodecUse.OPTIONAL
    assert Null().guarantee(behind_log=False) == Guarantee("sends nothing", "an event is acked and dropped")
    assert Null().guarantee(behind_log=True).warnings == (
        "what reaches it is dropped, and the log upstream deletes it too",
    )
