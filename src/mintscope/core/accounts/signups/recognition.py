"""Knowing an applicant by the secret; in a time that tells nothing."""

import hmac
from typing import Final

from mintscope.base.credentials import CredentialHash
from mintscope.core.accounts.application import Application, KeptApplication

NOBODYS_HASH: Final = CredentialHash(bytes(32))  # compared with where there is no application


def recognise(kept: KeptApplication | None, digest: CredentialHash) -> Application | None:
    """Return the application if *digest* is that of its secret."""
    expected = NOBODYS_HASH if kept is None else kept.secret_hash
    is_known = hmac.compare_digest(digest, expected)
    return kept.application if is_known and kept is not None else None
