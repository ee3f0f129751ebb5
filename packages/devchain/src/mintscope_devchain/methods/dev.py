"""JSON-RPC methods of test chains: the faucet, the faults, and addresses of tokens and wallets."""

from itertools import count
from typing import Annotated, Final

import msgspec
from solders.instruction import AccountMeta, Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.system_program import TransferParams, transfer
from solders.token import ID as TOKEN
from solders.transaction import VersionedTransaction

from mintscope_devchain.addresses import ASSOCIATED, MEMO
from mintscope_devchain.faults import Knobs
from mintscope_devchain.methods.params import ContextOptions, table
from mintscope_devchain.methods.sending import send
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS, Genesis
from mintscope_devchain.svm.vm import Vm
from mintscope_devchain.transaction import Json

GIFT_LAMPORTS_MAX: Final = 1_000 * 10**9
GIFT_ATOMS_MAX: Final = 10**15
CREATE_IDEMPOTENT: Final = b"\x01"
MINT_TO: Final = b"\x07"
NO_FAULTS: Final = Knobs()

_Lamports = Annotated[int, msgspec.Meta(ge=0, le=GIFT_LAMPORTS_MAX)]
_Atoms = Annotated[int, msgspec.Meta(ge=0, le=GIFT_ATOMS_MAX)]


class DevMethods:
    """JSON-RPC methods that only test chains have: the faucet, faults and information."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm
        self._gifts = count(1)  # a number in each gift makes two equal gifts different transactions
        self.by_name = table(
            {
                "requestAirdrop": self._airdrop,
                "devchain_faucet": self._gift,
                "devchain_setFaults": self._set_faults,
                "devchain_getFaults": lambda: vm.faults.knobs,
                "devchain_getInfo": self._info,
            }
        )

    def _airdrop(
        self,
        owner: Pubkey,
        lamports: Annotated[int, msgspec.Meta(ge=1, le=GIFT_LAMPORTS_MAX)],
        _: ContextOptions | None = None,
    ) -> str:
        return self._gift(owner, lamports, 0)

    def _gift(
        self,
        owner: Pubkey,
        lamports: _Lamports = 10**9,
        atoms: _Atoms = 10**9,
        usdc_atoms: _Atoms = 0,
    ) -> str:
        genesis = self._vm.genesis
        faucet = self._vm.genesis.faucet
        memo = f"gift {next(self._gifts)}".encode()
        instructions = [Instruction(Pubkey.from_string(MEMO), memo, [])]
        if lamports:
            given = TransferParams(from_pubkey=faucet.pubkey(), to_pubkey=owner, lamports=lamports)
            instructions.append(transfer(given))
        for mint, given_atoms in ((genesis.mint, atoms), (genesis.usdc, usdc_atoms)):
            if given_atoms:
                instructions += _mint_to(genesis, owner, mint, given_atoms)
        blockhash = self._vm.block("processed").blockhash
        message = MessageV0.try_compile(faucet.pubkey(), instructions, [], blockhash)
        return send(self._vm, VersionedTransaction(message, [faucet]))

    def _set_faults(self, knobs: Knobs = NO_FAULTS) -> Knobs:
        self._vm.faults.set(knobs)
        return knobs

    def _info(self) -> Json:
        genesis = self._vm.genesis
        return {
            "mint": str(genesis.mint),
            "decimals": PAYMENT_DECIMALS,
            "usdc": str(genesis.usdc),
            "treasury": str(genesis.treasury.pubkey()),
            "treasuryTokens": str(genesis.treasury_tokens),
            "feePayer": str(genesis.fee_payer.pubkey()),
            "faucet": str(genesis.faucet.pubkey()),
        }


def _mint_to(genesis: Genesis, owner: Pubkey, mint: Pubkey, atoms: int) -> list[Instruction]:
    """Return the instructions that mint *atoms* to *owner*, creating a token account if needed."""
    faucet = genesis.faucet.pubkey()
    tokens = genesis.tokens_of(owner, mint)
    payer = AccountMeta(faucet, is_signer=True, is_writable=True)
    held = AccountMeta(tokens, is_signer=False, is_writable=True)
    read = [
        AccountMeta(key, is_signer=False, is_writable=False) for key in (owner, mint, SYSTEM, TOKEN)
    ]
    minted = AccountMeta(mint, is_signer=False, is_writable=True)
    authority = AccountMeta(faucet, is_signer=True, is_writable=False)
    data = MINT_TO + atoms.to_bytes(8, "little")
    return [
        Instruction(Pubkey.from_string(ASSOCIATED), CREATE_IDEMPOTENT, [payer, held, *read]),
        Instruction(TOKEN, data, [minted, held, authority]),
    ]
