"""Payments as a client builds them, for tests that change one part of them."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519
from solders.transaction import VersionedTransaction

from mintscope.kit.primitives import Mint, Wallet
from mintscope.payments.protocol.envelope import Requirement, Terms
from mintscope.payments.protocol.headers import Presented
from mintscope_client.wallet import PayerWallet, Pin, SpendLimit
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS, Genesis


def keypair(name: str) -> Keypair:
    """Return the keypair for *name*; every call returns the same."""
    return Keypair.from_seed(name.encode().ljust(32, b"."))


FEE_PAYER = keypair("fee payer")
PAYER = keypair("payer")
MINT = Mint(str(keypair("mint").pubkey()))
TERMS = Terms(
    asset=MINT,
    decimals=6,
    pay_to=Wallet(str(keypair("treasury").pubkey())),
    fee_payer=Wallet(str(FEE_PAYER.pubkey())),
)
COMPUTE_BUDGET = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
LIGHTHOUSE = Pubkey.from_string("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95")


def meta(key: Pubkey, *, signer: bool = False, writable: bool = False) -> AccountMeta:
    return AccountMeta(key, is_signer=signer, is_writable=writable)


def terms_of(genesis: Genesis) -> Terms:
    """Return the payment terms of a seller on the devchain that begins with *genesis*."""
    return Terms(
        asset=Mint(str(genesis.mint)),
        decimals=PAYMENT_DECIMALS,
        pay_to=Wallet(str(genesis.treasury.pubkey())),
        fee_payer=Wallet(str(genesis.fee_payer.pubkey())),
    )


def payer_wallet(terms: Terms, keypair: Keypair = PAYER, **changes: Any) -> PayerWallet:
    """Return a wallet of our client that pays for *terms*; *changes* replace its pin or limits."""
    pin = Pin(
        network=terms.network, asset=terms.asset, decimals=terms.decimals, pay_to=terms.pay_to
    )
    pin = changes.pop("pin", pin)
    limit = SpendLimit(**({"atoms_per_payment": 30_000, "atoms_in_all": 100_000} | changes))
    return PayerWallet(keypair=keypair, pin=pin, limit=limit)


@dataclass(kw_only=True)
class Recipe:
    """The parts of a transaction as the official client makes it; a test can change each part."""

    amount: int
    memo: bytes
    terms: Terms = TERMS
    payer: Keypair = PAYER
    units: bytes = b"\x02" + (20_000).to_bytes(4, "little")
    price: bytes = b"\x03" + (1).to_bytes(8, "little")
    blockhash: Hash = field(default_factory=lambda: Hash(bytes([7] * 32)))
    legacy: bool = False

    def instructions(self) -> list[Instruction]:
        return [
            Instruction(COMPUTE_BUDGET, self.units, []),
            Instruction(COMPUTE_BUDGET, self.price, []),
            self.transfer(),
            Instruction(MEMO, self.memo, []),
        ]

    def transfer(self, **changes: Any) -> Instruction:
        owner = self.payer.pubkey()
        parts: dict[str, Any] = {
            "program": Pubkey.from_string(self.terms.token_program),
            "source": self.terms.token_account(owner),
            "mint": Pubkey.from_string(self.terms.asset),
            "destination": self.terms.treasury,
            "authority": owner,
            "data": b"\x0c" + self.amount.to_bytes(8, "little") + bytes([self.terms.decimals]),
        } | changes
        return Instruction(
            parts["program"],
            parts["data"],
            [
                meta(parts["source"], writable=True),
                meta(parts["mint"]),
                meta(parts["destination"], writable=True),
                meta(parts["authority"], signer=True),
            ],
        )

    def message(self, instructions: Sequence[Instruction] | None = None) -> Message | MessageV0:
        listed = self.instructions() if instructions is None else list(instructions)
        fee_payer = Pubkey.from_string(self.terms.fee_payer)
        if self.legacy:
            return Message.new_with_blockhash(listed, fee_payer, self.blockhash)
        return MessageV0.try_compile(fee_payer, listed, [], self.blockhash)

    def build(self, instructions: Sequence[Instruction] | None = None) -> bytes:
        return sign(self.message(instructions), self.payer)


def sign(message: Message | MessageV0, payer: Keypair) -> bytes:
    """Return the transaction with the payer's signature, without the signature of the fee payer."""
    count = message.header.num_required_signatures
    theirs = payer.sign_message(to_bytes_versioned(message))
    signatures = [Ed25519.default()] * (count - 1) + [theirs]
    return bytes(VersionedTransaction.populate(message, signatures))


def present(
    requirement: Requirement, transaction: bytes, *, identifier: str | None = None
) -> Presented:
    """Return *transaction* in the form of `decode_payment`, as a payment for *requirement*."""
    return Presented(
        transaction=transaction,
        scheme="exact",
        network=requirement.terms.network,
        asset=requirement.terms.asset,
        pay_to=requirement.terms.pay_to,
        amount=requirement.amount,
        identifier=identifier,
    )


def pay(
    requirement: Requirement, *, payer: Keypair = PAYER, blockhash: bytes = b"\7" * 32
) -> Presented:
    """Return a payment for *requirement*, built as the official client does."""
    recipe = Recipe(
        amount=requirement.amount,
        memo=requirement.memo.encode(),
        payer=payer,
        blockhash=Hash(blockhash),
    )
    return present(requirement, recipe.build())


def as_base64(transaction: bytes) -> str:
    return base64.b64encode(transaction).decode()
