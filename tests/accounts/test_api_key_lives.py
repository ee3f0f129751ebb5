"""Keys made, rotated and revoked in any order: each is valid exactly until its end."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.accounts.keys.key import KeyStatus
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.session import Session
from mintscope.accounts.signups.signups import IssuedKey
from mintscope.kit.audit import KeyId
from support.scenes.people_service import PeopleService, open_people_service

MINUTE_MS: Final = 60_000
NEVER: Final = 10**9

# (verb, minutes, number of a key); a lifetime of 0 minutes has no end
Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["make", "rotate", "rotate", "revoke", "wait", "wait"]),
        st.sampled_from([0, 2, 3, 8]),
        st.integers(0, 9),
    ),
    min_size=12,
    max_size=30,
)


@dataclass
class Kept:
    """The expected state of an API key.

    span   its lifetime in minutes; 0: endless
    end    the minute in which it ends
    """

    bearer: str
    span: int
    end: int
    is_rotated: bool = False


@dataclass
class Life:
    """The API keys that a session creates, and the expected state of each key."""

    service: PeopleService
    session: Session
    keys: dict[KeyId, Kept] = field(default_factory=dict)
    now: int = 0

    async def play(self, step: Step) -> None:
        verb, minutes, which = step
        if verb == "wait":
            self.now += minutes
            self.service.clock.advance(minutes * MINUTE_MS)
        elif verb == "make":
            await self.make(minutes)
        elif self.keys:
            key_id = list(self.keys)[which % len(self.keys)]
            await (self.rotate if verb == "rotate" else self.revoke)(key_id, minutes)

    async def make(self, minutes: int) -> None:
        issued = await self.service.keys.create(
            self.session,
            name="bot",
            scopes=frozenset({Scope.TRADE_READ}),
            lifetime_ms=minutes * MINUTE_MS or None,
        )
        self.learn(issued, minutes)

    async def rotate(self, key_id: KeyId, minutes: int) -> None:
        kept = self.keys[key_id]
        new = await self.service.keys.rotate(self.session, key_id, overlap_ms=minutes * MINUTE_MS)
        assert (new is not None) is (self.now < kept.end and not kept.is_rotated)
        if new is not None:
            kept.is_rotated = True
            kept.end = min(kept.end, self.now + minutes)
            self.learn(new, kept.span)

    async def revoke(self, key_id: KeyId, _minutes: int) -> None:
        kept = self.keys[key_id]
        assert await self.service.keys.revoke(self.session, key_id) is (self.now < kept.end)
        kept.end = min(kept.end, self.now)

    def learn(self, issued: IssuedKey, span: int) -> None:
        end = self.now + span if span else NEVER
        self.keys[issued.line.key_id] = Kept(issued.api_key, span, end)

    async def expect_agreement(self) -> None:
        for kept in self.keys.values():
            assert (await self.service.keys.find(kept.bearer) is not None) is (self.now < kept.end)
        now_ms = self.service.clock.now()
        lines = await self.service.keys.of_user(self.session.user.user_id)
        are_active = [line.status(now_ms) is KeyStatus.ACTIVE for line in lines]
        assert are_active == sorted(are_active, reverse=True)
        assert {line.key_id for line in lines} == set(self.keys)


@pytest.mark.storm
@given(steps=steps)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_a_key_is_good_exactly_until_its_end(steps: list[Step]) -> None:
    async def run() -> None:
        with TemporaryDirectory() as folder:
            async with open_people_service(Path(folder)) as service:
                life = Life(service, await service.signed_up())
                for step in steps:
                    await life.play(step)
                    await life.expect_agreement()

    asyncio.run(run())
