"""The chain as of a commitment: what every answer with a context is about."""

from typing import Final

from solders.account import Account
from solders.pubkey import Pubkey

from mintscope.devchain.methods.params import Config
from mintscope.devchain.methods.rpc import RpcError
from mintscope.devchain.svm.vm import Closed, Vm

Json = dict[str, object]

MIN_CONTEXT_SLOT: Final = -32016
API_VERSION: Final = "2.3.13"


class View:
    """*vm* at the commitment that *config* asks for; `finalized` when it does not say."""

    def __init__(self, vm: Vm, config: Config | None) -> None:
        config = config or Config()
        self._vm = vm
        self.commitment = config.commitment or "finalized"
        self.block: Closed = vm.block(self.commitment)
        if (config.min_context_slot or 0) > self.block.slot:
            raise RpcError(
                MIN_CONTEXT_SLOT,
                "Minimum context slot has not been reached",
                {"contextSlot": self.block.slot},
            )

    def account(self, address: Pubkey) -> Account | None:
        """Return what is at *address*."""
        return self._vm.account(address, self.commitment)

    def answer(self, value: object) -> Json:
        """Return *value* with the slot it is about."""
        return {"context": {"apiVersion": API_VERSION, "slot": self.block.slot}, "value": value}
