"""Every JSON-RPC method that the virtual machine answers."""

from collections.abc import Mapping, Sequence

from mintscope.devchain.methods.accounts import AccountMethods
from mintscope.devchain.methods.dev import DevMethods
from mintscope.devchain.methods.landed import LandedMethods
from mintscope.devchain.methods.rpc import METHOD_NOT_FOUND, Answer, RpcError
from mintscope.devchain.methods.sending import SendMethods
from mintscope.devchain.svm.vm import Vm


class VmMethods:
    """Answers calls about one virtual machine."""

    def __init__(self, vm: Vm) -> None:
        self.by_name: Mapping[str, Answer] = {
            **AccountMethods(vm).by_name,
            **SendMethods(vm).by_name,
            **LandedMethods(vm).by_name,
            **DevMethods(vm).by_name,
        }

    def call(self, method: str, params: Sequence[object]) -> object:
        """Return the result of *method*.

        Raises RpcError for a refusal.
        """
        answer = self.by_name.get(method)
        if answer is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        return answer(params)
