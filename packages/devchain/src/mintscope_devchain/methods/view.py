"""The state of the devchain at a commitment, and JSON-RPC results with a `context`."""

from typing import Final

from solders.account import Account
from solders.pubkey import Pubkey

from mintscope_devchain.methods.params import ContextOptions, RpcError
from mintscope_devchain.svm.vm import Closed, Vm
from mintscope_devchain.transaction import Json

MIN_CONTEXT_SLOT: Final = -32016
API_VERSION: Final = "4.3.1"


class View:
    """The state of the chain *vm* at the commitment that *options* ask for; default: `finalized`.

    Raises RpcError if the newest block of that commitment is below `minContextSlot` of *options*.
    """

    def __init__(self, vm: Vm, options: ContextOptions | None) -> None:
        options = options or ContextOptions()
        self._vm = vm
        self.commitment = options.commitment or "finalized"
        self.block: Closed = vm.block(self.commitment)
        if (options.min_context_slot or 0) > self.block.slot:
            raise RpcError(
                MIN_CONTEXT_SLOT,
                "Minimum context slot has not been reached",
                {"contextSlot": self.block.slot},
            )

    def account(self, address: Pubkey) -> Account | None:
        """Return the account at *address*; None if it does not exist."""
        return self._vm.account(address, self.commitment)

    def answer(self, value: object) -> Json:
        """Return *value* as an RPC result with a `context`, which has the slot of this view."""
        return {"context": {"apiVersion": API_VERSION, "slot": self.block.slot}, "value": value}
