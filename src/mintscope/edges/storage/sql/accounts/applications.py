"""ApplicationRows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from mintscope.core.accounts.application import (
    Application,
    ApplicationState,
    Form,
    KeptApplication,
    NewApplication,
    SignupId,
)
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.edges.storage.sql.accounts.table import NO_END, Columns, Table

APPLICATION: Final = Columns(
    Application,
    "application",
    signup_id="application.id",
    form=Columns(Form, "application"),
    user_removed="""(
        SELECT removed_at IS NOT NULL FROM "user" WHERE "user".id = application."user")""",
)


class SqlApplicationRows(Table[SignupId, KeptApplication]):
    """Implements ApplicationRows."""

    NAME = "application"
    COLUMNS = Columns(
        KeptApplication, "application", application=APPLICATION, owner='application."user"'
    )
    SOURCE = "application WHERE"

    def find(self, email: EmailAddress) -> KeptApplication | None:
        """Return the application of that address, with one query."""
        return self._first("email = ?", email)

    def insert(self, new: NewApplication) -> SignupId:
        """Add an application that awaits confirmation; its address must be free."""
        columns = asdict(new)
        form, applied_at = columns.pop("form"), columns.pop("at")
        state = ApplicationState.AWAITING_CONFIRMATION
        return self._add(columns | form | {"state": state, "applied_at": applied_at})

    def delete(self, signup_id: SignupId) -> None:
        """Delete an application."""
        self._db.execute("DELETE FROM application WHERE id = ?", (signup_id,))

    def page(
        self, state: ApplicationState | None, after: SignupId | None, limit: int
    ) -> Sequence[Application]:
        """Return up to *limit* behind *after*: in *state*, oldest first; of any, newest first."""
        if state is None:
            found = self._all(f"id < coalesce(?, {NO_END}) ORDER BY id DESC LIMIT ?", after, limit)
        else:
            in_state = "state = ? AND id > coalesce(?, 0) ORDER BY id LIMIT ?"
            found = self._all(in_state, state, after, limit)
        return [kept.application for kept in found]

    def counts(self) -> Mapping[ApplicationState, int]:
        """Return how many applications each state has; states without any are left out."""
        rows = self._db.execute("SELECT state, count(*) FROM application GROUP BY state")
        return {ApplicationState(state): count for state, count in rows}
