"""Names for the numbers of the audit log: addresses, names of users and of keys."""

from collections.abc import Collection, Mapping
from typing import Final

from mintscope.core.accounts.application import SignupId, subject_of
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.keys.api_key import KeyId
from mintscope.core.accounts.store import AccountRows
from mintscope.core.accounts.user import UserId, find_person

NUMBER_DIGITS_MAX: Final = 18


def names_of(rows: AccountRows, subjects: Collection[str]) -> Mapping[str, str]:
    """Return the names of *subjects*, as `user:7`; what has none any more is left out."""
    named = {subject: _name_of(rows, subject) for subject in set(subjects)}
    return {subject: name for subject, name in named.items() if name}


def named_by(rows: AccountRows, email: EmailAddress) -> str | None:
    """Return how the audit log names the person, or else the application, of an address."""
    person = find_person(rows.users, email)
    if person is not None:
        return f"user:{person.user.user_id}"
    kept = rows.applications.find(email)
    return None if kept is None else subject_of(kept.application.signup_id)


def _name_of(rows: AccountRows, subject: str) -> str:
    kind, _, number = subject.partition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= NUMBER_DIGITS_MAX):
        return ""
    match kind:
        case "user":
            user = rows.users.get(UserId(int(number)))
            return "" if user is None else user.user.email
        case "application":
            application = rows.applications.get(SignupId(int(number)))
            return "" if application is None else application.application.form.email
        case "key":
            key = rows.api_keys.get(KeyId(int(number)))
            return "" if key is None else f"{key.name} ({key.hint})"
        case _:
            return ""
