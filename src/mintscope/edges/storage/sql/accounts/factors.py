"""AppRows, RecoveryRows, PasskeyRows and SignInRows."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.factors.rows import (
    App,
    AppId,
    CodeId,
    HalfSignIn,
    NewPasskey,
    Passkey,
    PasskeyId,
    RecoveryCode,
    SignInId,
)
from mintscope.core.accounts.user import UserId
from mintscope.edges.storage.sql.accounts.table import Columns, Table

NEVER: Final = -1  # no step of a code is before it


class SqlAppRows(Table[AppId, App]):
    """Implements AppRows."""

    NAME = "authenticator_app"
    COLUMNS = Columns(App, NAME, app_id="authenticator_app.id", user_id='authenticator_app."user"')
    SOURCE = "authenticator_app WHERE"

    def of_user(self, user_id: UserId) -> App | None:
        """Return the app of a user, confirmed or not."""
        return self._first('"user" = ?', user_id)

    def replace(self, user_id: UserId, nonce: bytes, at: UnixMs) -> AppId:
        """Let the user have another app, not confirmed yet."""
        self._db.execute('DELETE FROM authenticator_app WHERE "user" = ?', (user_id,))
        return self._add({"user": user_id, "nonce": nonce, "made_at": at, "last_step": NEVER})

    def delete(self, user_id: UserId, since: UnixMs) -> None:
        """Delete the app of a user if it was made at *since* or later."""
        statement = 'DELETE FROM authenticator_app WHERE "user" = ? AND made_at >= ?'
        self._db.execute(statement, (user_id, since))


class SqlRecoveryRows(Table[CodeId, RecoveryCode]):
    """Implements RecoveryRows."""

    NAME = "recovery_code"
    COLUMNS = Columns(RecoveryCode, NAME, code_id="recovery_code.id")
    SOURCE = "recovery_code WHERE"

    def unused(self, user_id: UserId) -> Sequence[RecoveryCode]:
        """Return the codes of a user that were not used."""
        return self._all('"user" = ? ORDER BY id', user_id)

    def replace(self, user_id: UserId, hashes: Sequence[CredentialHash], at: UnixMs) -> None:
        """Let the user have these codes alone."""
        self._db.execute('DELETE FROM recovery_code WHERE "user" = ?', (user_id,))
        for code_hash in hashes:
            self._add({"user": user_id, "code_hash": code_hash, "made_at": at})

    def use(self, code_id: CodeId) -> None:
        """Delete a code."""
        self._db.execute("DELETE FROM recovery_code WHERE id = ?", (code_id,))

    def delete(self, user_id: UserId, since: UnixMs) -> None:
        """Delete the codes of a user that were made at *since* or later."""
        statement = 'DELETE FROM recovery_code WHERE "user" = ? AND made_at >= ?'
        self._db.execute(statement, (user_id, since))


class SqlPasskeyRows(Table[PasskeyId, Passkey]):
    """Implements PasskeyRows."""

    NAME = "passkey"
    COLUMNS = Columns(Passkey, NAME, passkey_id="passkey.id", user_id='passkey."user"')
    SOURCE = "passkey WHERE"

    def of_user(self, user_id: UserId) -> Sequence[Passkey]:
        """Return the passkeys of a user, oldest first."""
        return self._all('"user" = ? ORDER BY id', user_id)

    def find(self, credential_id: bytes) -> Passkey | None:
        """Return the passkey of that credential."""
        return self._first("credential_id = ?", credential_id)

    def insert(self, user_id: UserId, new: NewPasskey, at: UnixMs) -> PasskeyId:
        """Add a passkey, whose credential no user has."""
        return self._add({"user": user_id, "made_at": at} | asdict(new))

    def delete(self, user_id: UserId, since: UnixMs) -> None:
        """Delete the passkeys of a user that were made at *since* or later."""
        statement = 'DELETE FROM passkey WHERE "user" = ? AND made_at >= ?'
        self._db.execute(statement, (user_id, since))

    def remove(self, passkey_id: PasskeyId) -> None:
        """Delete one passkey."""
        self._db.execute("DELETE FROM passkey WHERE id = ?", (passkey_id,))


class SqlSignInRows(Table[SignInId, HalfSignIn]):
    """Implements SignInRows."""

    NAME = "half_sign_in"
    COLUMNS = Columns(HalfSignIn, NAME, sign_in_id="half_sign_in.id", user_id='half_sign_in."user"')
    SOURCE = "half_sign_in WHERE"

    def find(self, ticket_hash: CredentialHash) -> HalfSignIn | None:
        """Return the sign-in of that ticket, good or not."""
        return self._first("ticket_hash = ?", ticket_hash)

    def insert(self, user_id: UserId, ticket_hash: CredentialHash, at: UnixMs) -> SignInId:
        """Add a sign-in that begins to wait at *at*."""
        return self._add({"user": user_id, "ticket_hash": ticket_hash, "begun_at": at})

    def delete(self, sign_in_id: SignInId) -> bool:
        """Delete a sign-in; say whether it was there."""
        self._db.execute("DELETE FROM half_sign_in WHERE id = ?", (sign_in_id,))
        return self._db.changes() == 1

    def end(self, user_id: UserId) -> None:
        """Delete every sign-in of a user."""
        self._db.execute('DELETE FROM half_sign_in WHERE "user" = ?', (user_id,))

    def purge(self, begun_before: UnixMs) -> None:
        """Delete sign-ins that began before then."""
        self._db.execute("DELETE FROM half_sign_in WHERE begun_at < ?", (begun_before,))
