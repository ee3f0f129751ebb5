"""What a page says on top, once, after something was done; addresses carry the key alone."""

from collections.abc import Mapping
from typing import Final

NOTICES: Final[Mapping[str, str]] = {
    "signed-up": "Welcome. Your account is ready.",
    "signed-out": "You are signed out.",
    "password-changed": "Your password is changed. All other sessions were ended.",
    "password-reset": "Your password is set. Sign in with it.",
    "reset-sent": "If there is an account with that address, a link is on its way to its mailbox.",
    "verification-sent": "If no e-mail was sent in the last five minutes, nor five in a day, one is"
    " on its way.",
    "verified": "Your mailbox is verified.",
    "claim-sent": "If no e-mail was sent in the last five minutes, one is on its way to the mailbox"
    " of that agent. Open its link here, in this browser.",
    "claimed": "The agent's API keys are yours now.",
    "session-ended": "That session is ended.",
    "sessions-ended": "All other sessions are ended.",
    "key-revoked": "The key is revoked.",
    "approved": "Approved. An e-mail is on its way to the applicant.",
    "rejected": "Rejected. An e-mail is on its way to the applicant.",
    "application-reset": "The key is revoked. The same secret can be exchanged once more.",
    "application-forgotten": "The application is forgotten. Its address may apply again.",
    "account-removed": "The account is removed.",
}
