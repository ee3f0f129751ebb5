"""Collects the JSON-RPC methods that the devchain answers."""

from collections.abc import Mapping, Sequence
from typing import Final

from mintscope_devchain.methods.accounts import AccountMethods
from mintscope_devchain.methods.blocks import BlockMethods, Chain
from mintscope_devchain.methods.dev import DevMethods
from mintscope_devchain.methods.landed import LandedMethods
from mintscope_devchain.methods.params import (
    METHOD_NOT_FOUND,
    Answer,
    RpcError,
    final_params,
    table,
)
from mintscope_devchain.methods.past import ChainPast
from mintscope_devchain.methods.sending import SendMethods
from mintscope_devchain.svm.vm import Vm

VERSION: Final = {"solana-core": "4.3.1", "feature-set": 3640012085}


class Methods:
    """The JSON-RPC methods of a devchain: those of *vm*, and those about blocks of *chain*."""

    def __init__(self, vm: Vm, chain: Chain | None = None) -> None:
        self._faults = vm.faults
        self.by_name: Mapping[str, Answer] = {
            **AccountMethods(vm).by_name,
            **SendMethods(vm).by_name,
            **LandedMethods(vm, None if chain is None else ChainPast(chain)).by_name,
            **DevMethods(vm).by_name,
            **({} if chain is None else BlockMethods(chain).by_name),
            **table({"getHealth": lambda: "ok", "getVersion": lambda: VERSION}),
        }

    def call(self, method: str, params: Sequence[object]) -> object:
        """Return the result of the JSON-RPC method *method*.

        Raises RpcError if there is no such method, or if the method refuses the call.
        """
        answer = self.by_name.get(method)
        if answer is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        fault = self._faults.knobs.confirmed
        return answer(params if fault is None else final_params(params, fault))
