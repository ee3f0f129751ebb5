"""Sessions that are used at any times end by their idle and absolute limits."""

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.accounts.session import Lifetimes
from mintscope.accounts.user import LoginLimits
from mintscope.kit.limits import MemoryLimits
from support.scenes.people_service import ALICE, HERE, PASSWORD, open_people_service

MINUTE_MS = 60_000


@given(
    idle_minutes=st.sampled_from([1, 2, 30]),
    absolute_minutes=st.sampled_from([3, 60]),
    pauses_s=st.lists(
        st.integers(0, 400) | st.sampled_from([59, 60, 61, 1_799, 1_800]), max_size=15
    ),
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_a_session_lasts_until_its_idle_or_its_absolute_limit(
    idle_minutes: int, absolute_minutes: int, pauses_s: list[int]
) -> None:
    """Uses are stored once a minute, so a session can end a minute early, but never late."""
    idle_ms, absolute_ms = idle_minutes * MINUTE_MS, absolute_minutes * MINUTE_MS
    slack_ms = min(MINUTE_MS, idle_ms // 4)

    async def run() -> None:
        with TemporaryDirectory() as folder:
            async with open_people_service(Path(folder)) as service:
                people = replace(
                    service.people,
                    lifetimes=Lifetimes(idle_ms=idle_ms, absolute_ms=absolute_ms),
                    limits=MemoryLimits(service.clock),
                    guesses=LoginLimits(),
                )
                cookie = await people.sign_up(ALICE, PASSWORD, HERE)
                age_ms = 0
                for pause_s in pauses_s:
                    service.clock.advance(pause_s * 1000)
                    age_ms += pause_s * 1000
                    is_there = await people.session(cookie) is not None
                    if age_ms >= absolute_ms or pause_s * 1000 >= idle_ms:
                        assert not is_there
                    elif pause_s * 1000 < idle_ms - slack_ms:
                        assert is_there
                    if not is_there:
                        return

    asyncio.run(run())
