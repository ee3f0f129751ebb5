"""Checks the tables of accounts by plain SQL, and compares them with the audit log."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw

TABLES: Final = ("user", "application", "api_key", "session", "proof", "letter", "account_event")

# The state of an application after each kind of event in the audit log; None: it is deleted.
STATE_AFTER: Final = {
    "applied": "awaiting_confirmation",
    "approved": "approved",
    "rejected": "rejected",
    "reset": "approved",
    "issued": "key_issued",
    "disowned": None,
    "lapsed": None,
    "forgotten": None,
}

CONTRADICTIONS: Final = {
    "two keys in force for one application": """
SELECT application FROM api_key WHERE application IS NOT NULL AND revoked_at IS NULL
 GROUP BY application HAVING count(*) > 1
""",
    "a key in force of an application that has none": """
SELECT k.id FROM api_key AS k LEFT JOIN application AS a ON a.id = k.application
 WHERE k.application IS NOT NULL AND k.revoked_at IS NULL AND a.state IS NOT 'key_issued'
""",
    "an application that has a key, and there is none": """
SELECT id FROM application AS a
 WHERE state = 'key_issued' AND NOT EXISTS (SELECT 1 FROM api_key WHERE application = a.id)
""",
    "a key of one that was removed": """
SELECT k.id FROM api_key AS k JOIN user AS u ON u.id = k.user
 WHERE u.removed_at IS NOT NULL AND k.revoked_at IS NULL
""",
    "a key of someone else's": """
SELECT a.id FROM application AS a JOIN api_key AS k ON k.application = a.id
 WHERE k.revoked_at IS NULL AND k.user <> a.user
""",
    "a proof of nothing": """
SELECT p.id FROM proof AS p LEFT JOIN application AS a ON a.id = p.subject
 WHERE p.purpose = 'confirm_application' AND a.id IS NULL
""",
    "an e-mail that would carry a proof that is gone": """
SELECT id FROM letter WHERE kind = 'confirm_application' AND proof IS NULL
   AND sent_at IS NULL AND given_up_at IS NULL
""",
}


class Books:
    """The tables of accounts over one open connection, for many looks at one file."""

    def __init__(self, path: Path) -> None:
        self._db = apsw.Connection(str(path))
        self._db.set_busy_timeout(10_000)

    def close(self) -> None:
        self._db.close()

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self._db.execute(statement, values))

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return all rows of the accounts, for comparison."""
        return {table: self.rows(f"SELECT * FROM {table} ORDER BY id") for table in TABLES}

    def contradictions(self) -> list[str]:
        """Return the contradictions within and between the tables, e-mails and audit log."""
        found = [
            f"{what}: {subject}"
            for what, statement in CONTRADICTIONS.items()
            for (subject,) in self._db.execute(statement)
        ]
        found += [f"integrity: {each}" for (each,) in self._db.execute("PRAGMA integrity_check")]
        found.remove("integrity: ok")
        return found + _log_against_states(self._db) + _log_against_emails(self._db)


def rows(path: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(Books(path)) as books:
        return books.rows(statement, *values)


def dump(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of the accounts, for comparison."""
    with closing(Books(path)) as books:
        return books.dump()


def contradictions(path: Path) -> list[str]:
    """Return the contradictions within and between the tables, e-mails and audit log."""
    with closing(Books(path)) as books:
        return books.contradictions()


def _log_against_states(db: apsw.Connection) -> list[str]:
    """Return the applications whose state is not that in the log, and keys without an approval."""
    reported: dict[str, str | None] = {}
    wrong = []
    for action, subject, because, now in db.execute(
        "SELECT action, subject, detail ->> 'because', detail ->> 'now' FROM account_event"
        " ORDER BY id"
    ):
        application = because if action == "issued" else subject
        if not application.startswith("application:"):
            continue
        if action == "issued" and reported.get(application) != "approved":
            wrong.append(f"{application}: issued when {reported.get(application)}")
        if action == "confirmed":
            if reported[application] == "awaiting_confirmation":
                reported[application] = "awaiting_approval"
        elif action == "reopened":
            reported[application] = now
        elif action in STATE_AFTER:
            reported[application] = STATE_AFTER[action]
    kept = {
        f"application:{number}": state
        for number, state in db.execute("SELECT id, state FROM application")
    }
    said = {name: state for name, state in reported.items() if state is not None}
    if kept != said:
        wrong.append(f"the log says {said}, the table {kept}")
    return wrong


def _log_against_emails(db: apsw.Connection) -> list[str]:
    """Return an error for each kind of e-mail whose number differs from that of its events."""
    events: Counter[str] = Counter()
    for action, mailbox in db.execute(
        "SELECT action, detail ->> 'mailbox' FROM account_event"
        " WHERE subject LIKE 'application:%' OR action = 'issued'",
    ):
        events[action] += not (action == "rejected" and mailbox == "unconfirmed")
    expected = {
        "confirm_application": events["applied"],
        "application_approved": events["approved"] + events["reset"],
        "application_rejected": events["rejected"],
        "new_key": events["issued"],
    }
    written = Counter(kind for (kind,) in db.execute("SELECT kind FROM letter"))
    return [
        f"{written[kind]} e-mails {kind}; expected {count}"
        for kind, count in expected.items()
        if written[kind] != count
    ]
