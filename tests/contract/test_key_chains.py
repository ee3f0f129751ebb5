"""The lifetime of keys that were rotated by keys and by their owner, on every engine."""

from pathlib import Path

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.keys.key import KeyLine, NewKey
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.rows import AccountRows
from mintscope.kit.audit import Actor, key_actor, user_actor
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import UnixMs
from support.scenes.account_stores import ENGINES

ALICE = NewUser(
    kind=UserKind.PERSON,
    username="alice",
    email=EmailAddress("alice@example.org"),
    password_hash="hashed",
    created_at=UnixMs(0),
)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_lifetime_begins_at_the_newest_key_that_no_other_key_made(
    tmp_path: Path, engine: str
) -> None:
    def work(rows: AccountRows) -> list[int | None]:
        user_id = rows.users.insert(ALICE)
        owner = user_actor(user_id)

        def add(number: int, made_at: int, end: int | None, networks: str = "") -> KeyLine:
            new = NewKey(
                key_hash=CredentialHash(bytes([number] * 32)),
                hint="...1",
                name="bot",
                scopes=frozenset({Scope.TRADE_READ}),
                expires_at=None if end is None else UnixMs(end),
                networks=networks,
            )
            return rows.api_keys.insert(user_id, new, UnixMs(made_at), signup_id=None)

        def rotate(old: KeyLine, number: int, made_at: int, end: int, by: Actor) -> KeyLine:
            line = add(number, made_at, end)
            rows.api_keys.update(old.key_id, replaced_by=line.key_id)
            rows.events.note(UnixMs(made_at), by, "rotated", f"key:{line.key_id}")
            return line

        endless = add(9, 0, None, networks="192.0.2.0/24")
        first = add(1, 10, 100)
        second = rotate(first, 2, 50, 100, key_actor(first.key_id))
        third = rotate(second, 3, 90, 100, key_actor(second.key_id))
        renewed = rotate(third, 4, 95, 185, owner)
        fifth = rotate(renewed, 5, 150, 185, key_actor(renewed.key_id))
        made = [endless, first, second, third, renewed, fifth]
        rows.api_keys.revoke_active(user_id, UnixMs(95))
        rows.api_keys.forget_networks(user_id)
        kept = rows.api_keys.get(endless.key_id)
        assert kept is not None
        assert kept.networks == ""
        return [rows.api_keys.lifetime_ms(line) for line in made]

    async with ENGINES[engine](tmp_path) as store:
        assert await store.transact(work) == [None, 90, 90, 90, 90, 90]
