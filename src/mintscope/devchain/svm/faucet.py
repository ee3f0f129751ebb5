"""Gives SOL and payment tokens away, by transactions like everybody else's."""

from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.system_program import TransferParams, transfer
from solders.token import ID as TOKEN
from solders.transaction import VersionedTransaction

from mintscope.devchain.svm.genesis import Genesis

ASSOCIATED_TOKEN = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
CREATE_IDEMPOTENT = b"\x01"
MINT_TO = b"\x07"


class Faucet:
    """Makes gifts; two equal ones differ by their number."""

    def __init__(self, genesis: Genesis) -> None:
        self._genesis = genesis
        self._gifts = 0

    def gift(
        self, owner: Pubkey, *, lamports: int, atoms: int, blockhash: Hash
    ) -> VersionedTransaction:
        """Return the transaction that gives *owner* that much."""
        self._gifts += 1
        faucet = self._genesis.faucet
        instructions = [Instruction(MEMO, f"gift {self._gifts}".encode(), [])]
        if lamports:
            given = TransferParams(from_pubkey=faucet.pubkey(), to_pubkey=owner, lamports=lamports)
            instructions.append(transfer(given))
        if atoms:
            instructions += self._tokens(owner, atoms)
        message = MessageV0.try_compile(faucet.pubkey(), instructions, [], blockhash)
        return VersionedTransaction(message, [faucet])

    def _tokens(self, owner: Pubkey, atoms: int) -> list[Instruction]:
        faucet, mint = self._genesis.faucet.pubkey(), self._genesis.mint
        tokens = self._genesis.tokens_of(owner)
        return [
            Instruction(
                ASSOCIATED_TOKEN,
                CREATE_IDEMPOTENT,
                [
                    AccountMeta(faucet, is_signer=True, is_writable=True),
                    AccountMeta(tokens, is_signer=False, is_writable=True),
                    AccountMeta(owner, is_signer=False, is_writable=False),
                    AccountMeta(mint, is_signer=False, is_writable=False),
                    AccountMeta(SYSTEM, is_signer=False, is_writable=False),
                    AccountMeta(TOKEN, is_signer=False, is_writable=False),
                ],
            ),
            Instruction(
                TOKEN,
                MINT_TO + atoms.to_bytes(8, "little"),
                [
                    AccountMeta(mint, is_signer=False, is_writable=True),
                    AccountMeta(tokens, is_signer=False, is_writable=True),
                    AccountMeta(faucet, is_signer=True, is_writable=False),
                ],
            ),
        ]
