"""Writes payments into a service's `money.sqlite` without a chain, as data for tests of pages."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw
from solders.keypair import Keypair
from solders.signature import Signature as Ed25519

from mintscope.solana.blocks import USDC

BEGIN: Final = """
INSERT INTO payment (message_hash, signature, payer, address, resource, amount, credits, account,
    holder, key_hash, fee_lamports, last_valid_height, begun_at, lease_until, state, paid, final,
    asset, worth)
VALUES (?, ?, ?, '', ?, ?, ?, ?, ?, zeroblob(32), 5000, 1, ?, ?, 'pending', 0, 0, ?, ?)
"""
END: Final = """
UPDATE payment SET state = ?, paid = ?, reason = ?, final = ?, resolved = ?, resolved_at = ?,
    entry = ?
 WHERE message_hash = ?
"""


@dataclass(frozen=True, kw_only=True)
class PaidRow:
    """A payment for credits of the account with the ID *account*; if it is 0, for an answer."""

    number: int
    begun_at: int
    account: int = 0
    credit_count: int = 10
    amount: int = 25_000
    state: str = "issued"
    reason: str | None = None
    asset: str = USDC
    payer: str = ""
    worth: int | None = None

    @property
    def signature(self) -> str:
        return str(Ed25519.from_bytes(bytes([self.number]) * 64))

    @property
    def wallet(self) -> str:
        return self.payer or str(Keypair.from_seed(bytes([self.number]) * 32).pubkey())


def insert(folder: Path, *rows: PaidRow) -> None:
    """Add *rows* to `money.sqlite` in *folder*; a running service may have the file open."""
    db = apsw.Connection(str(folder / "money.sqlite"))
    db.set_busy_timeout(5_000)
    for row in rows:
        name, account = bytes([row.number]) * 32, row.account or None
        bought = f"/v1/credits/purchase?bundle={row.credit_count}" if account else "/v1/token/x"
        credit_count = row.credit_count if account else 0
        at = row.begun_at
        what = (bought, row.amount, credit_count, account, account, at, at, row.asset, row.worth)
        db.execute(BEGIN, (name, row.signature, row.wallet, *what))
        if row.state != "pending":
            paid = row.amount if row.state == "issued" else 0
            entry = -row.number if account and paid else None
            state = (row.state, paid, row.reason, int(bool(paid)), row.number, at, entry)
            db.execute(END, (*state, name))
    db.close()
