"""Names, numbers and formats of the service's protocol that a buying client must know.

    svc_credit_ + 64 hex     a credit token
    svc_app_    + 64 hex     an application secret
    svc_live_   + 80 hex     an API key

The last 8 hex digits of each credential are the CRC-32 (ISO 3309, as in zlib) of everything before
them. All hex is lower case.
"""

import re
import zlib
from enum import Enum
from typing import Final, NewType

PAYMENT_REQUIRED: Final = "PAYMENT-REQUIRED"  # header of a 402: the demand
PAYMENT_SIGNATURE: Final = "PAYMENT-SIGNATURE"  # header of a request: the payment
SCHEME: Final = "exact"
AMOUNT_MAX: Final = 2**63 - 1  # atoms; the limit of a service, half of the limit of the chain
TOKEN_PROGRAM: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"  # noqa: S105 - an address
BLOCKHASH_BLOCKS: Final = 150  # MAX_PROCESSING_AGE: a blockhash is valid for 150 blocks
# The JSON-RPC code with which a node refuses an unknown level of commitment
INVALID_PARAMS: Final = -32602
CONFIRMED: Final = "confirmed"
FINALIZED: Final = "finalized"
CHECKSUM_LENGTH: Final = 8

CreditToken = NewType("CreditToken", str)


class CredentialKind(Enum):
    """The kinds of credentials, as (prefix, number of hex digits)."""

    CREDIT_TOKEN = ("svc_credit_", 64)
    APPLICATION_SECRET = ("svc_app_", 64)
    API_KEY = ("svc_live_", 80)

    @property
    def prefix(self) -> str:
        """The prefix of every credential of this kind."""
        return self.value[0]


def is_well_formed(kind: CredentialKind, text: str) -> bool:
    """Return whether *text* has the form of *kind* and a valid checksum."""
    prefix, digits = kind.value
    if re.fullmatch(rf"{prefix}[0-9a-f]{{{digits}}}", text) is None:
        return False
    body = text[:-CHECKSUM_LENGTH]
    return text[-CHECKSUM_LENGTH:] == f"{zlib.crc32(body.encode()):0{CHECKSUM_LENGTH}x}"
