"""Accounts over a real store, and the actions of an agent and an administrator on them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mintscope.accounts.keys.keys import ApiKeys
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import ProofId, link_text
from mintscope.accounts.signups.application import SignupId
from mintscope.accounts.signups.reviews import Reviews
from mintscope.accounts.signups.signups import Exchanges, Signups
from mintscope.accounts.store import AccountConnections
from mintscope.accounts.user import Hasher
from mintscope.app import accounts as wiring
from mintscope.app.stores.folder import MONEY_FILE, WEBHOOKS_FILE
from mintscope.app.stores.money import SqlAccountStore
from mintscope.kit.audit import COMMAND_LINE, UserId
from mintscope.kit.clock import Clock
from mintscope.kit.limits import MemoryLimits
from support.scenes.engine import account_connections, rows_of, webhook_queue
from support.scenes.stores import config_in

EMAIL = "agent@example.org"
SIGNUP_PATH = "/api/public/beta-signup"
CONFIRM_PATH = "/api/auth/confirm-email"
STATUS_PATH = "/api/auth/application-status"
EXCHANGE_PATH = "/api/auth/exchange-secret"


def signup_body(email: str = EMAIL, **fields: Any) -> dict[str, Any]:
    return {"email": email, "userType": "trader", "motivation": "To trade by myself."} | fields


@dataclass
class Accounts:
    """The account services of one process, over a file that several processes can share."""

    path: Path
    file: AccountConnections
    store: SqlAccountStore
    secrets: AccountSecrets
    built: wiring.Accounts
    signup: Signups
    exchange: Exchanges
    keys: ApiKeys
    review: Reviews

    def change(self, query: str, *values: Any) -> None:
        rows_of(self.path, query, values)

    async def approve(self, signup_id: int, *scopes: Scope) -> None:
        """Approve an application as an administrator, even if its address is not confirmed."""
        await self.review.approve(
            SignupId(signup_id),
            scopes=frozenset(scopes),
            note="",
            actor=COMMAND_LINE,
            unconfirmed=True,
        )

    async def remove_user(self, user_id: int) -> None:
        await self.review.remove_user(UserId(user_id), actor=COMMAND_LINE)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return rows_of(self.path, query, values)

    def code(self, email: str = EMAIL) -> str:
        """Return the code in the newest confirmation e-mail to *email*."""
        _, nonce = self._proof(email)
        return self.secrets.code_of(nonce)

    def link(self, email: str = EMAIL) -> str:
        """Return the last segment of the link in the newest confirmation e-mail to *email*."""
        proof_id, nonce = self._proof(email)
        return link_text(proof_id, self.secrets.link_of(nonce))

    def _proof(self, email: str) -> tuple[ProofId, bytes]:
        ((proof_id, nonce),) = self.rows(
            "SELECT proof.id, nonce FROM proof JOIN letter ON letter.proof = proof.id"
            " WHERE recipient = ? AND kind = 'confirm_application' ORDER BY letter.id DESC LIMIT 1",
            email,
        )
        return ProofId(proof_id), nonce


@asynccontextmanager
async def open_accounts_service(  # noqa: PLR0913 - one argument for each thing that can differ
    folder: Path,
    *,
    pepper: bytes,
    clock: Clock,
    open_file: Callable[[Path], AccountConnections] = account_connections,
    limit_clock: Clock | None = None,
    hasher: Hasher | None = None,
    **parts: Any,
) -> AsyncIterator[Accounts]:
    """Open the account services; *parts* are sections of their configuration."""
    file = open_file(folder / MONEY_FILE)
    queue = webhook_queue(folder / WEBHOOKS_FILE)
    store = SqlAccountStore(file)
    try:
        async with wiring.open_accounts(
            config_in(folder, **parts),
            store=store,
            queue=queue,
            pepper=pepper,
            origin="http://test",
            limits=MemoryLimits(limit_clock or clock),
            clock=clock,
            hasher=hasher,
        ) as built:
            yield Accounts(
                path=folder / MONEY_FILE,
                file=file,
                store=store,
                secrets=AccountSecrets.derive(pepper),
                built=built,
                signup=built.signup,
                exchange=built.exchange,
                review=built.review,
                keys=built.keys,
            )
    finally:
        await queue.close()
        await file.close()
