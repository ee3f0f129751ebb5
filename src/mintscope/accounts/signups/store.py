"""Applications of agents, in SQL."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from typing_extensions import Unpack

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.signups.application import (
    Application,
    ApplicationChanges,
    ApplicationState,
    Form,
    KeptApplication,
    NewApplication,
    SignupId,
)
from mintscope.accounts.store import NO_END, Columns, Table
from mintscope.kit.audit import UserId
from mintscope.kit.primitives import UnixMs

APPLICATION: Final = Columns(
    Application,
    "application",
    signup_id="application.id",
    form=Columns(Form, "application"),
    user_removed="""(
        SELECT removed_at IS NOT NULL FROM "user" WHERE "user".id = application."user")""",
)

HOLDS: Final = (
    "("
    + " OR ".join(
        f"lower(coalesce({column}, '')) LIKE ? ESCAPE '!'"
        for column in ("email", "telegram", "twitter", "motivation")
    )
    + ")"
)
# An application whose key requests scopes is listed with applications that await approval.
WAITS: Final = "(state = ? OR asked_at IS NOT NULL)"
# An application that once had a key keeps its account, and cannot become undecided again.
REOPEN: Final = """
UPDATE application
   SET state = CASE WHEN confirmed_at IS NULL
               THEN 'awaiting_confirmation' ELSE 'awaiting_approval' END,
       decided_at = NULL, decided_by = NULL, scopes = '[]', note = ''
 WHERE id = ?1 AND decided_at = ?2 AND decided_at > ?3 AND state IN ('approved', 'rejected')
   AND "user" IS NULL
"""
COUNTS: Final = """
SELECT state, asked_at IS NOT NULL, count(*) FROM application GROUP BY state, asked_at IS NOT NULL
"""


class SqlApplicationRows(Table[SignupId, KeptApplication]):
    """Reads and writes applications for API keys, inside one transaction."""

    NAME = "application"
    COLUMNS = Columns(
        KeptApplication, "application", application=APPLICATION, owner='application."user"'
    )
    SOURCE = "application WHERE"

    def update(self, signup_id: SignupId, /, **changes: Unpack[ApplicationChanges]) -> None:
        """Set the columns of an application that *changes* names."""
        self._update(signup_id, changes)

    def find(self, email: EmailAddress) -> KeptApplication | None:
        """Return the application of *email*; None if there is none."""
        return self._first("email = ?", email)

    def of_user(self, user_id: UserId) -> Sequence[KeptApplication]:
        """Return the applications whose keys belong to a user, oldest first."""
        return self._all('"user" = ? ORDER BY id', user_id)

    def insert(self, new: NewApplication) -> SignupId:
        """Add an application that awaits confirmation; its address must be free."""
        columns = asdict(new)
        form = columns.pop("form")
        applied_at = columns.pop("at")
        state = ApplicationState.AWAITING_CONFIRMATION
        return self._add(columns | form | {"state": state, "applied_at": applied_at})

    def reopen(self, signup_id: SignupId, decided_at: UnixMs, since: UnixMs) -> bool:
        """Undo the decision made at *decided_at*, in one statement; return whether it was undone.

        The decision must be newer than *since*, and the application must never have had a key.
        """
        self._db.execute(REOPEN, (signup_id, decided_at, since))
        return self._db.changes() == 1

    def page(
        self, state: ApplicationState | None, after: SignupId | None, limit: int, text: str = ""
    ) -> Sequence[Application]:
        """Return up to *limit* applications that follow the application *after*.

        An application whose key requests scopes counts as an application that awaits approval.

        after  the last application of the page before; None: begin with the first
        state  only applications in this state, oldest first; None: all, newest first
        text   only applications with this text in address, handles or motivation; case is ignored
        """
        found: list[Application] = []
        while True:
            part = self._part(state, after, limit, text)
            found += [each for each in part if _has(each.form, text)]
            if len(found) >= limit or len(part) < limit:
                return found[:limit]
            after = part[-1].signup_id

    def _part(
        self, state: ApplicationState | None, after: SignupId | None, limit: int, text: str
    ) -> list[Application]:
        held = ""
        sought = tuple[str, ...]()
        if text:
            held = f"{HOLDS} AND "
            sought = (_pattern(text),) * HOLDS.count("?")
        if state is None:
            order = f"{held}id < coalesce(?, {NO_END}) ORDER BY id DESC LIMIT ?"
            found = self._all(order, *sought, after, limit)
        else:
            waits = state is ApplicationState.AWAITING_APPROVAL
            is_in = WAITS if waits else "(state = ? AND asked_at IS NULL)"
            in_state = f"{held}{is_in} AND id > coalesce(?, 0) ORDER BY id LIMIT ?"
            found = self._all(in_state, *sought, state, after, limit)
        return [kept.application for kept in found]

    def counts(self) -> Mapping[ApplicationState, int]:
        """Return the number of applications by state; states without applications are omitted.

        An application whose key requests scopes counts as awaiting approval.
        """
        counts: Counter[ApplicationState] = Counter()
        for state, asks, count in self._db.execute(COUNTS):
            counts[ApplicationState.AWAITING_APPROVAL if asks else ApplicationState(state)] += count
        return counts


def _has(form: Form, text: str) -> bool:
    """Return whether the e-mail address, a handle or the motivation in *form* contains *text*.

    Upper and lower case are not distinguished.
    """
    texts = (form.email, form.telegram, form.twitter, form.motivation)
    return any(text.casefold() in (each or "").casefold() for each in texts)


def _pattern(text: str) -> str:
    """Return a LIKE pattern that matches lower-case texts that contain *text*, and some others.

    The function lower() of both engines changes only ASCII characters, so the pattern accepts any
    text in place of other characters.
    """
    plain = "".join(f"!{sign}" if sign in "!%_" else sign for sign in text.lower())
    return f"%{''.join(sign if sign.isascii() else '%' for sign in plain)}%"
