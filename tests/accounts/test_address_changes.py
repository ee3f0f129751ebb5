"""Changes of e-mail addresses: their limits, and links that are used twice at the same time."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from mintscope.accounts.changes import AddressChanges
from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import UNVERIFIED_MAX
from mintscope.accounts.rows import AccountStore
from mintscope.accounts.user import EmailTaken, LoginLimits
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.time import DAY_MS, MINUTE_MS
from support.scenes.people.takeover import session_of
from support.scenes.people.web_person import ALICE, MALLORY, Person
from support.scenes.website import Website

NEW = EmailAddress("alice@new.example")


async def ask(site: Website, email: str, wanted: EmailAddress = NEW) -> str:
    """Request the address *wanted* for *email*'s account; return the link's last segment."""
    site.clock.advance(6 * MINUTE_MS)
    assert await site.accounts.addresses.request(await session_of(site, email), wanted)
    return (await site.link(wanted)).rpartition("/")[2]


class InterruptedStore:
    """A store that awaits *comes* once, before its first transaction."""

    def __init__(self, store: AccountStore, comes: Callable[[], Awaitable[object]]) -> None:
        self.read = store.read
        self._store = store
        self._comes: Callable[[], Awaitable[object]] | None = comes

    async def transact(self, work: Callable[[Any], Any]) -> Any:
        comes, self._comes = self._comes, None
        if comes is not None:
            await comes()
        return await self._store.transact(work)


def interrupted(site: Website, comes: Callable[[], Awaitable[object]]) -> AddressChanges:
    """Return an AddressChanges that awaits *comes* once, before its first transaction."""
    own = site.accounts.addresses
    return AddressChanges(
        store=cast("AccountStore", InterruptedStore(own.store, comes)),
        secrets=own.secrets,
        limits=MemoryLimits(site.clock),
        guesses=LoginLimits(),
        clock=site.clock,
        entropy=own.entropy,
    )


@pytest.fixture
async def mallory(site: Website, alice: Person) -> None:  # noqa: ARG001 - hers is the first
    """Create Mallory's account, after that of Alice."""
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)


@pytest.mark.usefixtures("mallory")
async def test_a_link_works_only_in_the_account_that_requested_it(site: Website) -> None:
    link = await ask(site, ALICE)
    addresses = site.accounts.addresses

    assert await addresses.confirm(await session_of(site, MALLORY), link) is False
    assert await addresses.confirm(await session_of(site, ALICE), "no-link") is False
    assert site.rows('SELECT email FROM "user" ORDER BY id') == [(ALICE,), (MALLORY,)]
    assert await addresses.confirm(await session_of(site, ALICE), link) is True
    assert site.rows('SELECT email FROM "user" ORDER BY id') == [(NEW,), (MALLORY,)]


@pytest.mark.usefixtures("mallory")
async def test_requests_for_a_taken_address_do_not_count_against_the_limit(site: Website) -> None:
    session, addresses = await session_of(site, ALICE), site.accounts.addresses
    for _ in range(6):
        with pytest.raises(EmailTaken):
            await addresses.request(session, EmailAddress(MALLORY))

    assert await addresses.request(session, NEW) is True
    assert await addresses.request(session, EmailAddress("alice@other.example")) is False


@pytest.mark.usefixtures("mallory")
async def test_several_accounts_cannot_flood_one_address(site: Website) -> None:
    for number in range(UNVERIFIED_MAX):
        await ask(site, (ALICE, MALLORY)[number % 2])
    site.clock.advance(6 * MINUTE_MS)

    addresses = site.accounts.addresses
    assert await addresses.request(await session_of(site, MALLORY), NEW) is False
    site.clock.advance(DAY_MS)
    assert await addresses.request(await session_of(site, MALLORY), NEW) is True


@pytest.mark.usefixtures("mallory")
async def test_requests_for_a_flooded_address_do_not_count_against_the_limit(
    site: Website,
) -> None:
    for number in range(UNVERIFIED_MAX):
        await ask(site, (ALICE, MALLORY)[number % 2])
    site.clock.advance(6 * MINUTE_MS)
    session, addresses = await session_of(site, MALLORY), site.accounts.addresses
    for _ in range(6):
        assert await addresses.request(session, NEW) is False

    assert await addresses.request(session, EmailAddress("mallory@other.example")) is True


@pytest.mark.usefixtures("alice")
async def test_a_change_is_in_the_audit_log(site: Website) -> None:
    link = await ask(site, ALICE)
    asked = "SELECT actor, action, subject FROM account_event WHERE action LIKE '% address'"
    assert site.rows(asked) == [("user:1", "asked for another address", "user:1")]
    assert await site.accounts.addresses.confirm(await session_of(site, ALICE), link)

    assert site.rows(asked)[1:] == [("user:1", "changed address", "user:1")]


@pytest.mark.usefixtures("alice")
async def test_a_link_is_void_if_another_address_is_requested_meanwhile(site: Website) -> None:
    link = await ask(site, ALICE)
    changes = interrupted(site, lambda: ask(site, ALICE, EmailAddress("alice@other.example")))

    assert await changes.confirm(await session_of(site, ALICE), link) is False
    assert site.rows('SELECT email FROM "user"') == [(ALICE,)]


async def test_one_of_two_simultaneous_undos_counts(site: Website, alice: Person) -> None:
    site.clock.advance(6 * MINUTE_MS)
    await alice.send("/settings/account/verify")
    await alice.send(await site.link(ALICE))
    link = await ask(site, ALICE)
    assert await site.accounts.addresses.confirm(await session_of(site, ALICE), link)
    undo = (await site.link(ALICE)).rpartition("/")[2]
    changes = interrupted(site, lambda: site.accounts.addresses.undo(undo))

    assert await changes.undo(undo) is None
    assert site.rows('SELECT email FROM "user"') == [(ALICE,)]
