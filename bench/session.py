"""Measures a prototype of paid sessions: the network fees of a call, beside other payments.

`python -m bench.session`; it is not part of `make bench`, and the service has no sessions: decision
91 has the reasons.  It is the `pull` mode of a session of MPP.  The buyer approves the key of the
seller as the delegate of a number of atoms of its own token account, without a program of the
seller, escrow or rent.  For each call, it signs a voucher with the total of its debt.  The seller
stores the newest voucher, and collects the debt when it exceeds `exposure_max`, and at the end.

The chain is the program of SPL Token in LiteSVM.  A buyer can revoke the approval or empty its
account: the seller then loses the debt that it has not collected, at most `exposure_max`.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import apsw
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.token import ID as TOKEN
from solders.token.state import TokenAccount
from solders.transaction import VersionedTransaction

from mintscope_devchain.svm.bank import Bank
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS, Genesis

PRICE: Final = 2_500  # atoms: the price of a report, at 1 USD for a token
CALLS: Final = (10, 100, 500, 1_000)
EXPOSURE_MAX: Final = 250_000  # atoms: 0.25 USD, a hundred reports
FEE_OF_A_PAYMENT: Final = 10_001  # lamports, as measured
APPROVE_CHECKED: Final = b"\x0d"
TRANSFER_CHECKED: Final = b"\x0c"
REVOKE: Final = b"\x05"
DOMAIN: Final = b"mintscope session 1\0"


@dataclass(frozen=True)
class Voucher:
    """A buyer's signed statement of its debt, with which the seller can collect the debt.

    session    SHA-256 of the message that opened the session
    atoms      the total debt since the session began
    """

    session: bytes
    atoms: int
    signature: Signature


class Chain:
    """A chain of buyers and a seller, which adds up the network fees that they pay."""

    def __init__(self) -> None:
        self.genesis = Genesis(0)
        self.bank = Bank()
        self.genesis.apply(self.bank)
        self.fees = 0
        self._blocks = 0

    def send(self, instructions: Sequence[Instruction], *signers: Keypair) -> bytes | None:
        """Send a transaction whose fee the seller pays; return its message, or None on failure."""
        self._blocks += 1
        payer = self.genesis.fee_payer
        blockhash = Hash(sha256(self._blocks.to_bytes(8, "big")).digest())
        message = MessageV0.try_compile(payer.pubkey(), list(instructions), [], blockhash)
        keys = {key.pubkey(): key for key in (payer, *signers)}
        needed = message.account_keys[: message.header.num_required_signatures]
        signed = to_bytes_versioned(message)
        signatures = [keys[key].sign_message(signed) for key in needed]
        done = self.bank.execute(VersionedTransaction.populate(message, signatures))
        self.fees += done.fee if done.landed else 0
        return signed if done.landed and done.error is None else None

    def tokens(self, account: Pubkey) -> TokenAccount:
        found = self.bank.account(account)
        assert found is not None
        return TokenAccount.from_bytes(found.data)


@dataclass(frozen=True)
class Buyer:
    """A wallet that pays by session: it approves the seller's key, and signs a voucher per call."""

    chain: Chain
    key: Keypair

    @property
    def account(self) -> Pubkey:
        return self.chain.genesis.tokens_of(self.key.pubkey())

    def approve(self, delegate: Pubkey, atoms: int) -> bytes:
        """Open a session: approve *delegate* to transfer *atoms*.  Return the id of the session."""
        data = APPROVE_CHECKED + atoms.to_bytes(8, "little") + bytes([PAYMENT_DECIMALS])
        accounts = [
            AccountMeta(self.account, is_signer=False, is_writable=True),
            AccountMeta(self.chain.genesis.mint, is_signer=False, is_writable=False),
            AccountMeta(delegate, is_signer=False, is_writable=False),
            AccountMeta(self.key.pubkey(), is_signer=True, is_writable=False),
        ]
        message = self.chain.send([Instruction(TOKEN, data, accounts)], self.key)
        assert message is not None
        return sha256(message).digest()

    def revoke(self) -> None:
        """Revoke the buyer's approval to transfer tokens; the seller cannot prevent it."""
        accounts = [
            AccountMeta(self.account, is_signer=False, is_writable=True),
            AccountMeta(self.key.pubkey(), is_signer=True, is_writable=False),
        ]
        assert self.chain.send([Instruction(TOKEN, REVOKE, accounts)], self.key) is not None

    def voucher(self, session: bytes, atoms: int) -> Voucher:
        return Voucher(session, atoms, self.key.sign_message(voucher_bytes(session, atoms)))


def voucher_bytes(session: bytes, atoms: int) -> bytes:
    """Return the bytes that a buyer signs to owe *atoms* in all for the session."""
    return DOMAIN + session + atoms.to_bytes(8, "big")


class Seller:
    """The seller of a session: accepts a voucher for each call, and collects debts on chain.

    path            the file in which the newest voucher of each session is stored
    exposure_max    the most atoms of a debt that may not have been collected yet
    """

    def __init__(self, chain: Chain, path: Path, exposure_max: int = EXPOSURE_MAX) -> None:
        self.chain = chain
        self.delegate = chain.genesis.key("session delegate")
        self.exposure_max = exposure_max
        self._kept = apsw.Connection(str(path))
        self._kept.pragma("journal_mode", "wal")
        self._kept.pragma("synchronous", "full")
        self._kept.execute(
            "CREATE TABLE session (name BLOB PRIMARY KEY, payer BLOB, atoms_max INTEGER,"
            " owed INTEGER DEFAULT 0, taken INTEGER DEFAULT 0, voucher BLOB) STRICT"
        )

    def open(self, name: bytes, payer: Pubkey) -> bool:
        """Begin a session with the key *name*, if *payer* has approved the seller's key on chain.

        Return whether it has begun.
        """
        account = self.chain.tokens(self.chain.genesis.tokens_of(payer))
        if account.delegate != self.delegate.pubkey() or not account.delegated_amount:
            return False
        row = (name, bytes(payer), account.delegated_amount)
        self._kept.execute("INSERT INTO session (name, payer, atoms_max) VALUES (?, ?, ?)", row)
        return True

    def pay(self, voucher: Voucher, price: int = PRICE) -> bool:
        """Return whether *voucher* pays for a call that costs *price* atoms; if so, store it."""
        row: Any = self._kept.execute(
            "SELECT payer, atoms_max, owed, taken FROM session WHERE name = ?", (voucher.session,)
        ).fetchone()
        if row is None:
            return False
        payer, atoms_max, owed, taken = row
        if not owed + price == voucher.atoms <= atoms_max:
            return False
        signed = voucher_bytes(voucher.session, voucher.atoms)
        if not voucher.signature.verify(Pubkey(payer), signed):
            return False
        if voucher.atoms - taken > self.exposure_max and not self.take(voucher.session):
            return False
        # Of two calls with the same voucher, the second changes no row
        changed: Any = self._kept.execute(
            "UPDATE session SET owed = ?, voucher = ? WHERE name = ? AND owed = ? RETURNING 1",
            (voucher.atoms, bytes(voucher.signature), voucher.session, owed),
        ).fetchone()
        return changed is not None

    def take(self, name: bytes) -> bool:
        """Collect the debt of the session *name*; return False if the buyer cannot pay any more."""
        row: Any = self._kept.execute(
            "SELECT payer, owed, taken FROM session WHERE name = ?", (name,)
        ).fetchone()
        payer, owed, taken = row
        if owed == taken:
            return True
        genesis = self.chain.genesis
        data = TRANSFER_CHECKED + (owed - taken).to_bytes(8, "little") + bytes([PAYMENT_DECIMALS])
        accounts = [
            AccountMeta(genesis.tokens_of(Pubkey(payer)), is_signer=False, is_writable=True),
            AccountMeta(genesis.mint, is_signer=False, is_writable=False),
            AccountMeta(genesis.treasury_tokens, is_signer=False, is_writable=True),
            AccountMeta(self.delegate.pubkey(), is_signer=True, is_writable=False),
        ]
        if self.chain.send([Instruction(TOKEN, data, accounts)], self.delegate) is None:
            return False
        self._kept.execute("UPDATE session SET taken = owed WHERE name = ?", (name,))
        return True

    def lost(self) -> int:
        """Return the debt that buyers have not paid, in atoms, over all sessions."""
        row: Any = self._kept.execute("SELECT sum(owed - taken) FROM session").fetchone()
        return int(row[0] or 0)


def main() -> None:
    """Print the network fees of a session per call, and the time to accept a voucher."""
    for calls in CALLS:
        with TemporaryDirectory() as folder:
            chain = Chain()
            buyer = Buyer(chain, chain.genesis.key("buyer"))
            chain.genesis.endow(chain.bank, buyer.key.pubkey(), lamports=0, atoms=10**9)
            seller = Seller(chain, Path(folder) / "sessions.sqlite")
            name = buyer.approve(seller.delegate.pubkey(), calls * PRICE)
            assert seller.open(name, buyer.key.pubkey())
            vouchers = [buyer.voucher(name, PRICE * (number + 1)) for number in range(calls)]
            began_s = time.perf_counter()
            paid = [seller.pay(voucher) for voucher in vouchers]
            took_s = time.perf_counter() - began_s
            assert all(paid)
            assert seller.take(name)
            treasury = chain.tokens(chain.genesis.treasury_tokens)
            assert treasury.amount == calls * PRICE
            print(
                f"{calls:6,} calls: {chain.fees / calls:8,.1f} lamports a call"
                f" ({FEE_OF_A_PAYMENT:,} by payment), {took_s / calls * 1e6:6,.0f} us a voucher"
            )


if __name__ == "__main__":
    main()
