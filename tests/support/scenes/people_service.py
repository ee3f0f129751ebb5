"""The services of users and their keys over a real file; only the password hashing is fake."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.keys import ApiKeys
from mintscope.accounts.people import People
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import Browser, EmailProof, ProofId, Purpose, Session, link_text
from mintscope.accounts.store import AccountConnections
from mintscope.app.stores.money import SqlAccountStore
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import HOUR_MS
from support.scenes.accounts_service import open_accounts_service
from support.scenes.engine import rows_of
from support.scenes.stores import PEPPER

NOW: Final = UnixMs(1_700_000_000_000)
SECRETS: Final = AccountSecrets.derive(PEPPER)
ALICE: Final = EmailAddress("alice@example.org")
MALLORY: Final = EmailAddress("mallory@example.org")
PASSWORD: Final = "correct horse battery"
OTHER_PASSWORD: Final = "staple horse battery"
HERE: Final = Browser("192.0.2.1", "Firefox")
THERE: Final = Browser("198.51.100.7", "curl")


def proof(proof_id: int, nonce: bytes) -> EmailProof:
    """Return a proof of Alice's e-mail address for a password reset, valid for an hour."""
    return EmailProof(
        proof_id=ProofId(proof_id),
        purpose=Purpose.RESET_PASSWORD,
        subject=1,
        email=ALICE,
        nonce=nonce,
        made_at=NOW,
        expires_at=UnixMs(NOW + HOUR_MS),
        used_at=None,
    )


async def _nothing() -> None:
    """Do nothing."""


class QuickHasher:
    """A fake password hasher, whose hashes contain the password; it counts its calls.

    meanwhile   a function that the next call awaits, once
    """

    def __init__(self) -> None:
        self.count = 0
        self.meanwhile: Callable[[], Awaitable[object]] = _nothing

    async def hash(self, password: str) -> str:
        await self._work()
        return f"quick:{password}"

    async def matches(self, password: str, stored: str | None) -> bool:
        await self._work()
        return stored == f"quick:{password}"

    async def _work(self) -> None:
        self.count += 1
        meanwhile, self.meanwhile = self.meanwhile, _nothing
        await meanwhile()


@dataclass(frozen=True, slots=True)
class PeopleService:
    people: People
    keys: ApiKeys
    clock: ManualClock
    hasher: QuickHasher
    store: SqlAccountStore
    file: AccountConnections
    path: Path

    def rows(self, statement: str, *columns: Any) -> list[Any]:
        return rows_of(self.path, statement, columns)

    def change(self, statement: str, *columns: Any) -> None:
        self.rows(statement, *columns)

    def bytes_on_disk(self) -> bytes:
        return self.path.read_bytes() + Path(f"{self.path}-wal").read_bytes()

    def link(self, purpose: Purpose) -> str:
        """Return the secret in the newest e-mail for *purpose*: the last segment of its link."""
        ((proof_id, nonce),) = self.rows(
            "SELECT proof.id, nonce FROM proof JOIN letter ON proof = proof.id"
            " WHERE purpose = ? ORDER BY proof.id DESC LIMIT 1",
            purpose,
        )
        return link_text(ProofId(proof_id), SECRETS.link_of(nonce))

    def emails(self) -> list[tuple[str, str]]:
        """Return (kind, recipient) of every e-mail, oldest first."""
        return self.rows("SELECT kind, recipient FROM letter ORDER BY id")

    async def enter(self, cookie: str) -> Session:
        """Return the session of *cookie*, which must exist."""
        session = await self.people.session(cookie)
        assert session is not None
        return session

    async def signed_up(self, email: EmailAddress = ALICE, browser: Browser = HERE) -> Session:
        return await self.enter(await self.people.sign_up(email, PASSWORD, browser))

    async def signed_in(self, email: EmailAddress = ALICE, browser: Browser = HERE) -> Session:
        return await self.enter(await self.people.sign_in(email, PASSWORD, browser))

    async def taken_back(self) -> None:
        """Reset the password of Alice to OTHER_PASSWORD, with the link in an e-mail to her."""
        await self.people.request_reset(ALICE, HERE)
        assert await self.people.reset(self.link(Purpose.RESET_PASSWORD), OTHER_PASSWORD)

    async def owned(self) -> Session:
        """Return a session of Alice, who has verified her address and has OTHER_PASSWORD."""
        await self.signed_up()
        await self.taken_back()
        return await self.enter(await self.people.sign_in(ALICE, OTHER_PASSWORD, HERE))


@asynccontextmanager
async def open_people_service(folder: Path) -> AsyncIterator[PeopleService]:
    clock, hasher = ManualClock(NOW), QuickHasher()
    async with open_accounts_service(folder, pepper=PEPPER, clock=clock, hasher=hasher) as accounts:
        yield PeopleService(
            people=accounts.built.people,
            keys=accounts.keys,
            clock=clock,
            hasher=hasher,
            store=accounts.store,
            file=accounts.file,
            path=accounts.path,
        )
