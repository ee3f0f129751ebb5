"""Pages with the same view share each read of the news; each gets the changes that it lacks."""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from structlog.testing import capture_logs

from mintscope.kit.errors import ServiceUnavailable
from mintscope.site.live import Channel, News, PageStream

PAUSE_S = 0.001
READERS = 100


@dataclass
class KeptOutlet:
    """A fake connection to a page: stores written chunks; a test sets whether it is behind."""

    written: list[bytes] = field(default_factory=list)
    behind: bool = False

    def write(self, chunk: bytes) -> None:
        self.written.append(chunk)

    def end(self, chunk: bytes) -> None:
        self.written.append(chunk)

    def is_behind(self) -> bool:
        return self.behind

    def is_gone(self) -> bool:
        return False

    async def wait_gone(self) -> None:
        await asyncio.Event().wait()


@dataclass
class Counter:
    """A source of news for open pages: the version of each view is *count*."""

    count: int = 0
    looks: int = 0

    async def look(self, views: Collection[str]) -> Mapping[str, News]:
        self.looks += 1
        now = self.count
        return {view: News(now, b"%s=%d" % (view.encode(), now), now - 1, b"+1") for view in views}


def stream_into(outlet: KeptOutlet, known: int | None = None) -> PageStream:
    return PageStream(outlet, [], on_behind=lambda _: None, known=known)


async def until_quiet(channel: Channel[str]) -> None:
    """Wait until *channel* has nothing left to do."""
    async with asyncio.timeout(10):
        while channel.is_busy:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(PAUSE_S)


async def test_one_look_serves_all_readers_each_with_its_missing_changes() -> None:
    counter = Counter(7)
    channel = Channel(counter.look, PAUSE_S)
    outlets = [KeptOutlet() for _ in range(READERS)]
    with ExitStack() as reading:
        for place, outlet in enumerate(outlets):
            known = {0: None, 1: 6, 2: 7}.get(place % 4, 3)
            reading.enter_context(channel.reading(stream_into(outlet, known), "ab"[place % 2]))
        await until_quiet(channel)
        assert counter.looks == 1
        assert [outlet.written for outlet in outlets[:4]] == [[b"a=7"], [b"+1"], [], [b"b=7"]]
        counter.count = 8
        channel.note()
        await until_quiet(channel)
        assert counter.looks == 2
        assert {outlet.written[-1] for outlet in outlets} == {b"+1"}
    assert not channel


async def test_a_slow_reader_gets_the_newest_state_later() -> None:
    counter, slow = Counter(1), KeptOutlet()
    channel = Channel(counter.look, PAUSE_S)
    with channel.reading(stream_into(slow), "a"):
        await until_quiet(channel)
        slow.behind = True
        for counter.count in (2, 3):
            channel.note()
            await asyncio.sleep(20 * PAUSE_S)  # many times the pause of the channel
        assert slow.written == [b"a=1"]
        looks, slow.behind = counter.looks, False
        await until_quiet(channel)
        assert slow.written == [b"a=1", b"a=3"]
        assert counter.looks == looks


async def test_a_failed_look_is_repeated_and_pages_are_updated_then() -> None:
    counter, failures = Counter(7), [ZeroDivisionError(), ZeroDivisionError()]

    async def look(views: Collection[str]) -> Mapping[str, News]:
        if failures:
            raise failures.pop()
        return await counter.look(views)

    channel, outlet = Channel(look, PAUSE_S, again_s=PAUSE_S), KeptOutlet()
    with channel.reading(stream_into(outlet), "a"):
        await until_quiet(channel)
        assert outlet.written == [b"a=7"]
    assert not failures


async def test_a_look_that_the_store_does_not_answer_is_logged_as_no_bug() -> None:
    counter, failures = Counter(7), [ServiceUnavailable("no answer")]

    async def look(views: Collection[str]) -> Mapping[str, News]:
        if failures:
            raise failures.pop()
        return await counter.look(views)

    channel, outlet = Channel(look, PAUSE_S, again_s=PAUSE_S), KeptOutlet()
    with capture_logs() as lines, channel.reading(stream_into(outlet), "a"):
        await until_quiet(channel)

    assert outlet.written == [b"a=7"]
    (line,) = lines
    assert (line["log_level"], line["reason"]) == ("warning", "no answer")
