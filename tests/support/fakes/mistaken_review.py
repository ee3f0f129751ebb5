"""A store of accounts with a deliberate mistake, which the crash tests must detect."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from typing_extensions import override

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import EmailId, EmailKind
from mintscope.accounts.mail.store import SqlEmailRows
from mintscope.accounts.rows import AccountRows
from mintscope.accounts.session import ProofId
from mintscope.app.stores.money import SqlAccountStore
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database

T = TypeVar("T")


class WritesEmailsAfterwards(SqlAccountStore):
    """The mistake: e-mails are stored in a second transaction, after that of their event."""

    @override
    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        inserted: list[tuple[Any, ...]] = []

        def withhold(db: Database) -> T:
            rows = AccountRows(db)
            rows.emails = _Withheld(db, inserted)
            return work(rows)

        outcome = await self._connections.write(withhold)

        def insert(rows: AccountRows) -> None:
            for email in inserted:
                rows.emails.insert(*email)

        await super().transact(insert)
        return outcome


class _Withheld(SqlEmailRows):
    def __init__(self, db: Database, inserted: list[tuple[Any, ...]]) -> None:
        super().__init__(db)
        self._inserted = inserted

    @override
    def insert(
        self,
        kind: EmailKind,
        recipient: EmailAddress,
        facts: Mapping[str, str],
        proof: ProofId | None,
        at: UnixMs,
    ) -> EmailId:
        self._inserted.append((kind, recipient, facts, proof, at))
        return EmailId(len(self._inserted))
