"""The outbox leases e-mails, and records sent and failed ones, on every engine of accounts."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import Draft, EmailId, EmailKind
from mintscope.accounts.mail.outbox import GIVE_UP_MAX, LEASE_MS, Outbox
from mintscope.accounts.rows import AccountRows, AccountStore, use_proof
from mintscope.accounts.session import NewProof, ProofId, Purpose
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import HOUR_MS
from support.scenes.account_stores import ENGINES

NOW: Final = UnixMs(1_700_000_000_000)
ALICE: Final = EmailAddress("alice@example.org")
NONCE: Final = bytes(range(32))


def later(ms: int) -> UnixMs:
    return UnixMs(NOW + ms)


@dataclass
class Box:
    """Two outboxes over one database, as in two processes, and a store to write e-mails."""

    outbox: Outbox
    other: Outbox
    store: AccountStore

    async def write(self, at: UnixMs = NOW, **facts: str) -> EmailId:
        return await self.store.transact(
            lambda rows: rows.emails.insert(EmailKind.NEW_KEY, ALICE, facts, None, at)
        )

    async def write_link(self, at: UnixMs = NOW) -> tuple[EmailId, ProofId]:
        def write(rows: AccountRows) -> tuple[EmailId, ProofId]:
            purpose, kind = Purpose.RESET_PASSWORD, EmailKind.RESET_PASSWORD
            proof = rows.proofs.insert(NewProof(purpose, 7, ALICE, NONCE, at))
            return rows.emails.insert(kind, ALICE, {}, proof, at), proof

        return await self.store.transact(write)

    async def kept(self, email_id: EmailId) -> Draft:
        kept = await self.store.read(lambda rows: rows.emails.get(email_id))
        assert kept is not None
        return kept


@pytest.fixture(params=ENGINES)
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Box]:
    opener = ENGINES[request.param]
    async with opener(tmp_path) as store, opener(tmp_path) as other:
        yield Box(Outbox(store), Outbox(other), store)


async def test_an_email_is_leased_as_it_was_written(box: Box) -> None:
    email_id = await box.write(hint="...12345678", scopes="trade:read")

    (draft,) = await box.outbox.lease(NOW, limit=10)

    assert draft.email_id == email_id
    assert draft.kind is EmailKind.NEW_KEY
    assert draft.recipient == ALICE
    assert draft.written_at == NOW
    assert draft.facts == {"hint": "...12345678", "scopes": "trade:read"}
    assert (draft.proof, draft.attempts) == (None, 0)


async def test_a_leased_email_with_a_link_contains_the_proof_of_the_link(box: Box) -> None:
    _, proof_id = await box.write_link()

    (draft,) = await box.outbox.lease(NOW, limit=10)

    assert draft.proof is not None
    assert (draft.proof.proof_id, draft.proof.nonce) == (proof_id, NONCE)


async def test_a_lease_returns_the_oldest_emails_up_to_its_limit(box: Box) -> None:
    ids = [await box.write(later(index)) for index in range(5)]

    taken = await box.outbox.lease(later(10), limit=3)

    assert [draft.email_id for draft in taken] == ids[:3]


async def test_no_other_process_gets_a_leased_email_for_a_minute(box: Box) -> None:
    await box.write()
    assert await box.outbox.lease(NOW, limit=10)

    assert await box.other.lease(later(LEASE_MS - 1), limit=10) == []
    assert await box.other.lease(later(LEASE_MS), limit=10)


async def test_a_sent_email_is_never_leased_again(box: Box) -> None:
    email_id = await box.write()
    await box.outbox.lease(NOW, limit=10)
    await box.outbox.sent(email_id, later(5))

    assert await box.outbox.lease(later(10 * LEASE_MS), limit=10) == []
    assert await box.outbox.count_waiting() == 0
    kept = await box.kept(email_id)
    assert (kept.sent_at, kept.attempts, kept.reason) == (later(5), 1, None)


async def test_a_failed_email_is_due_again_at_its_retry_time(box: Box) -> None:
    email_id = await box.write()
    await box.outbox.lease(NOW, limit=10)
    again_at = later(90_000)
    await box.outbox.failed(email_id, later(5), reason="451 later", retry_at=again_at)

    assert await box.outbox.count_waiting() == 1
    assert await box.outbox.lease(later(89_999), limit=10) == []
    (draft,) = await box.outbox.lease(again_at, limit=10)
    assert draft.attempts == 1
    assert (await box.kept(email_id)).reason == "451 later"


async def test_an_email_that_was_given_up_is_never_leased_again(box: Box) -> None:
    email_id = await box.write()
    await box.outbox.lease(NOW, limit=10)
    await box.outbox.failed(email_id, later(5), reason="550 no such user", retry_at=None)

    assert await box.outbox.lease(later(10 * LEASE_MS), limit=10) == []
    assert await box.outbox.count_waiting() == 0
    assert (await box.kept(email_id)).given_up_at == later(5)


async def test_a_late_report_about_a_sent_email_changes_nothing(box: Box) -> None:
    email_id = await box.write()
    await box.outbox.sent(email_id, NOW)
    before = await box.kept(email_id)
    await box.outbox.failed(email_id, later(5), reason="timeout", retry_at=None)
    await box.outbox.sent(email_id, later(9))

    assert await box.kept(email_id) == before


async def test_an_email_whose_link_was_used_is_given_up(box: Box) -> None:
    email_id, proof_id = await box.write_link()
    purpose, at = Purpose.RESET_PASSWORD, later(1)
    assert await box.store.transact(lambda rows: use_proof(rows.proofs, proof_id, purpose, at))

    assert await box.outbox.lease(later(2), limit=10) == []
    assert (await box.kept(email_id)).given_up_at == later(2)


async def test_an_email_whose_link_has_expired_is_given_up(box: Box) -> None:
    email_id, _ = await box.write_link()

    assert await box.outbox.lease(later(HOUR_MS), limit=10) == []
    assert (await box.kept(email_id)).reason == "its link is no longer valid"


async def test_emails_with_expired_links_are_given_up_in_batches(box: Box) -> None:
    def write(rows: AccountRows) -> None:
        purpose, kind = Purpose.RESET_PASSWORD, EmailKind.RESET_PASSWORD
        proof = rows.proofs.insert(NewProof(purpose, 7, ALICE, NONCE, NOW))
        for _ in range(GIVE_UP_MAX + 1):
            rows.emails.insert(kind, ALICE, {}, proof, NOW)

    await box.store.transact(write)

    assert await box.outbox.lease(later(HOUR_MS), limit=10) == []
    assert await box.outbox.count_waiting() == 1
    assert await box.outbox.lease(later(HOUR_MS), limit=10) == []
    assert await box.outbox.count_waiting() == 0


async def test_the_newest_emails_are_shown_in_any_state(box: Box) -> None:
    ids = [await box.write() for _ in range(4)]
    await box.outbox.sent(ids[3], NOW)
    await box.outbox.failed(ids[2], NOW, reason="550", retry_at=None)

    shown = await box.outbox.recent(limit=3)

    assert [draft.email_id for draft in shown] == ids[:0:-1]
