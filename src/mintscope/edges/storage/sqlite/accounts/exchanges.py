"""ExchangeStore on SQLite: account, key and letter in the transaction that changes the state."""

from typing import Final

import apsw

from mintscope.base.credentials import CredentialHash
from mintscope.base.errors import AccountNotFound, InvalidCredentials, NotApproved
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import (
    Application,
    ApplicationState,
    KeptApplication,
    SignupId,
)
from mintscope.core.accounts.audit import APPLICANT, Event
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.keys.scope import in_order
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.signups.exchange import Issue, Offer
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.rows.api_keys import COLUMNS, add_key, line_of
from mintscope.edges.storage.sqlite.accounts.rows.applications import (
    find,
    find_by_email,
    subject_of,
)
from mintscope.edges.storage.sqlite.accounts.rows.emails import write_letter
from mintscope.edges.storage.sqlite.accounts.rows.events import note

# The key of an earlier exchange, before a reset, has shown where the next one belongs.
OWNER: Final = "SELECT user FROM application WHERE id = ?"

# A person gets a key only for a mailbox that both have proven to read.
PERSON: Final = """
SELECT id FROM user
 WHERE kind = 'person' AND email = ? AND removed_at IS NULL AND verified_at IS NOT NULL
"""

ADD_AGENT: Final = """
INSERT INTO user (kind, username, email, verified_at, created_at) VALUES ('agent', ?, ?, ?, ?)
RETURNING id
"""

ISSUE: Final = """
UPDATE application
   SET state = 'key_issued', issued_at = ?2, key_nonce = ?3, exchange_redeem = ?4, user = ?5
 WHERE id = ?1 AND state = 'approved'
"""

ISSUED: Final = """
SELECT key_nonce, exchange_redeem, issued_at, username
  FROM application JOIN user ON user.id = application.user WHERE application.id = ?
"""

KEY: Final = f"SELECT {COLUMNS} FROM api_key WHERE application = ? ORDER BY id DESC LIMIT 1"  # noqa: S608


class SqliteExchangeStore:
    """Implements accounts.exchange.ExchangeStore."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file

    async def find(self, email: EmailAddress) -> KeptApplication | None:
        """Return the application of *email*: one query."""
        return self._file.read(lambda db: find_by_email(db, email))

    async def issue(self, offer: Offer) -> Issue:
        """Issue the key offered if the application is approved; return what it has got, ever."""
        return await self._file.write(lambda db: _issue(db, offer))


def _issue(db: apsw.Connection, offer: Offer) -> Issue:
    application = find(db, offer.signup_id)
    if application is None:
        raise InvalidCredentials
    if application.user_removed:
        raise AccountNotFound
    if application.state is ApplicationState.APPROVED:
        _hand_out(db, application, offer)
    elif application.state is not ApplicationState.KEY_ISSUED:
        raise NotApproved
    return _issued(db, offer.signup_id)


def _hand_out(db: apsw.Connection, application: Application, offer: Offer) -> None:
    user_id = _owner_of(db, application, offer)
    db.execute(ISSUE, (offer.signup_id, offer.at, offer.key_nonce, offer.redeem, user_id))
    assert db.changes() == 1, "expected the state that was seen under the write lock"
    line = add_key(db, user_id, offer.key, offer.at, signup_id=offer.signup_id)
    told = {"hint": line.hint, "scopes": ", ".join(in_order(line.scopes))}
    write_letter(db, EmailKind.NEW_KEY, application.form.email, told, None, offer.at)
    _note(db, offer, "issued", f"key:{line.key_id}")


def _owner_of(db: apsw.Connection, application: Application, offer: Offer) -> UserId:
    """Return whose key it will be."""
    owner = db.execute(OWNER, (application.signup_id,)).get
    if owner is None and application.confirmed_at is not None:
        owner = db.execute(PERSON, (application.form.email,)).get
    if owner is None:
        agent = (offer.username, application.form.email, application.confirmed_at, offer.at)
        owner = db.execute(ADD_AGENT, agent).get
        _note(db, offer, "created", f"user:{owner}")
    return UserId(int(owner))


def _issued(db: apsw.Connection, signup_id: SignupId) -> Issue:
    nonce, redeem, at, username = db.execute(ISSUED, (signup_id,)).get
    row = db.execute(KEY, (signup_id,)).fetchone()
    assert row is not None, "expected the key of an application in state key_issued"
    return Issue(
        line=line_of(row),
        username=username,
        key_nonce=nonce,
        redeem=None if redeem is None else CredentialHash(redeem),
        at=UnixMs(at),
    )


def _note(db: apsw.Connection, offer: Offer, action: str, subject: str) -> None:
    why = {"because": subject_of(offer.signup_id)}
    note(db, Event(at=offer.at, actor=APPLICANT, action=action, subject=subject, detail=why))
