"""JSON-RPC: what no real chain has.  The faucet, the knobs, and who is who."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from solders.pubkey import Pubkey

from mintscope.devchain.faults import Knobs
from mintscope.devchain.methods.params import Config, Positional, method
from mintscope.devchain.methods.rpc import Answer
from mintscope.devchain.methods.view import Json
from mintscope.devchain.svm.faucet import Faucet
from mintscope.devchain.svm.genesis import PAYMENT_DECIMALS
from mintscope.devchain.svm.vm import Vm

GIFT_LAMPORTS_MAX: Final = 1_000 * 10**9
GIFT_ATOMS_MAX: Final = 10**15


class _Airdrop(Positional, frozen=True):
    owner: Pubkey
    lamports: Annotated[int, msgspec.Meta(ge=1, le=GIFT_LAMPORTS_MAX)]
    config: Config | None = None


class _Gift(Positional, frozen=True):
    owner: Pubkey
    lamports: Annotated[int, msgspec.Meta(ge=0, le=GIFT_LAMPORTS_MAX)] = 10**9
    atoms: Annotated[int, msgspec.Meta(ge=0, le=GIFT_ATOMS_MAX)] = 10**9


class _Faults(Positional, frozen=True):
    knobs: Knobs = Knobs()


class _Nothing(Positional, frozen=True):
    pass


class DevMethods:
    """Answers calls that only a dev chain knows."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm
        self._faucet = Faucet(vm.genesis)
        self.by_name: Mapping[str, Answer] = {
            "requestAirdrop": method(_Airdrop, self._airdrop),
            "devchain_faucet": method(_Gift, self._gift),
            "devchain_setFaults": method(_Faults, self._set_faults),
            "devchain_getFaults": method(_Nothing, self._faults),
            "devchain_getInfo": method(_Nothing, self._info),
        }

    def _airdrop(self, params: _Airdrop) -> str:
        return self._give(params.owner, params.lamports, 0)

    def _gift(self, params: _Gift) -> str:
        return self._give(params.owner, params.lamports, params.atoms)

    def _give(self, owner: Pubkey, lamports: int, atoms: int) -> str:
        blockhash = self._vm.block("processed").blockhash
        gift = self._faucet.gift(owner, lamports=lamports, atoms=atoms, blockhash=blockhash)
        self._vm.send(gift)
        return str(gift.signatures[0])

    def _set_faults(self, params: _Faults) -> Knobs:
        self._vm.faults.set(params.knobs)
        return params.knobs

    def _faults(self, _: _Nothing) -> Knobs:
        return self._vm.faults.knobs

    def _info(self, _: _Nothing) -> Json:
        genesis = self._vm.genesis
        return {
            "mint": str(genesis.mint),
            "decimals": PAYMENT_DECIMALS,
            "treasury": str(genesis.treasury.pubkey()),
            "treasuryTokens": str(genesis.treasury_tokens),
            "feePayer": str(genesis.fee_payer.pubkey()),
            "faucet": str(genesis.faucet.pubkey()),
        }
