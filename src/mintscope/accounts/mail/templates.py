"""The texts of e-mails: the reason, the next step, and advice for a wrong recipient.

No e-mail contains a text of an applicant, and only e-mails to a verified address contain texts of a
user: a person who enters a stranger's address must not be able to write to the stranger in the name
of the service.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mintscope.accounts.mail.email import Draft, Email, EmailKind
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import Purpose, link_text
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import utc

NO_FACTS: Final = dict.fromkeys(
    (
        *("scopes", "hint", "username", "what", "because", "undo", "wallet", "credits"),
        *("signal", "mint", "alert", "title", "lines", "message", "name_of", "symbol"),
        *("limit", "resumes", "pause"),
        *("spent", "level", "day"),
    ),
    "",
)
HOST_SIGNS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")
LINK_OF: Final[Mapping[EmailKind, tuple[Purpose, str]]] = {
    EmailKind.CONFIRM_APPLICATION: (Purpose.CONFIRM_APPLICATION, "confirm"),
    EmailKind.VERIFY_EMAIL: (Purpose.VERIFY_EMAIL, "verify"),
    EmailKind.RESET_PASSWORD: (Purpose.RESET_PASSWORD, "reset"),
    EmailKind.CLAIM_AGENT: (Purpose.CLAIM_AGENT, "claim"),
    EmailKind.CHANGE_EMAIL: (Purpose.CHANGE_EMAIL, "change-email"),
    EmailKind.EMAIL_CHANGED: (Purpose.UNDO_EMAIL, "undo-email"),
}
PAUSE: Final = "pause-alert"
PAUSABLE: Final = {EmailKind.SIGNAL_FIRED, EmailKind.SIGNAL_LIMIT, EmailKind.SIGNAL_HOUR_LIMIT}
# The purpose and the path of the link in all e-mails that have a proof but are not in LINK_OF.
UNDO: Final = (Purpose.UNDO_EMAIL, "undo-email")

TEXTS: Final = Path(__file__).with_name("texts")
TEMPLATES: Final = {  # each file: the subject, a blank line, the text
    kind: (TEXTS / f"{kind}.txt").read_text(encoding="utf-8").removesuffix("\n").partition("\n\n")
    for kind in EmailKind
}
TAKE_BACK: Final = (TEXTS / "undo.txt").read_text(encoding="utf-8").removesuffix("\n")


class EmailWithoutLink(ValueError):
    """The link that the e-mail must contain was deleted, so the e-mail cannot be sent."""


def compose(draft: Draft, *, origin: str, secrets: AccountSecrets, name: str) -> Email:
    """Return the e-mail of *draft*; every call for a draft returns the same e-mail.

    origin    the configured origin of links; it is never taken from a request
    name      the name of this installation
    Raises    EmailWithoutLink
    """
    facts = NO_FACTS | draft.facts | {"origin": origin, "name": name}
    if "reason" in draft.facts:  # a text by an administrator
        facts["because"] = f"\n{draft.facts['reason']}\n"
    if draft.kind in LINK_OF and draft.proof is None:
        raise EmailWithoutLink(f"e-mail {draft.email_id}: expected a proof; there is none")
    if draft.proof is not None:
        purpose, path = LINK_OF.get(draft.kind, UNDO)
        last = link_text(draft.proof.proof_id, secrets.link_of(draft.proof.nonce))
        until = UnixMs(draft.written_at + purpose.lifetime_ms)
        facts["link"], facts["code"] = f"{origin}/{path}/{last}", secrets.code_of(draft.proof.nonce)
        facts["until"] = f"{utc(until):%d %B %Y, %H:%M} UTC"
        facts["undo"] = f"\n\n{TAKE_BACK.format_map(facts)}"
    signal = draft.facts.get("signal")
    facts["alert"] = f"{origin}/alerts" if signal is None else f"{origin}/alerts/{signal}"
    pause = None
    if draft.kind in PAUSABLE and signal is not None:
        number = int(signal)
        pause = facts["pause"] = f"{origin}/{PAUSE}/{number}.{secrets.pause_proof(number)}"
    subject, _, text = TEMPLATES[draft.kind]
    return Email(
        recipient=draft.recipient,
        subject=subject.format_map(facts),
        text=f"Hello,\n\n{text.format_map(facts)}\n\n-- \n{name}, {origin}\n",
        message_id=_message_id(draft, origin, secrets),
        pause=pause,
    )


def _message_id(draft: Draft, origin: str, secrets: AccountSecrets) -> str:
    host = urlsplit(origin).hostname or ""
    # An IPv6 address is not valid as the domain of a Message-ID.
    domain = host if host and HOST_SIGNS.issuperset(host) else "localhost"
    return f"<{secrets.email_name(draft.email_id, draft.written_at)}@{domain}>"
