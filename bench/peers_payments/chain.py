"""Runs a devchain that confirms in about 800 ms, with answers delayed by 40 ms, for payments.

It records when each payment arrived and when it was confirmed.

`python -m bench.peers_payments.chain PORT BUYERS`
"""

import asyncio
import sys
import time
from collections.abc import Sequence

import uvloop
from typing_extensions import override

from bench.peers_payments.moments import SEED, server
from mintscope.kit.clock import SystemClock
from mintscope_devchain.blockstore import SlotPace
from mintscope_devchain.faults import Knobs
from mintscope_devchain.methods.table import Methods
from mintscope_devchain.pulse import Pulse
from mintscope_devchain.server import answering
from mintscope_devchain.svm.vm import Vm

SLOT_MS = 200
LAND_MS, CONFIRM_MS = 300, 400  # each takes up to a slot more
LATENCY_MS = 40
ATOMS = 10**12


class Watched(Methods):
    """JSON-RPC methods of a devchain that also records three moments of each payment.

    They are its arrival, its confirmation, and the first answer that reports it as confirmed.
    """

    def __init__(self, vm: Vm) -> None:
        super().__init__(vm)
        self._vm = vm
        self._sent: dict[str, float] = {}
        self._confirmed: dict[str, float] = {}
        self._reported: dict[str, float] = {}

    def watch(self) -> None:
        """Record the current time for each sent payment that has become confirmed."""
        for signature in self._sent.keys() - self._confirmed.keys():
            landed = self._vm.landed(signature)
            if landed is not None and self._vm.commitment(landed.block.slot) != "processed":
                self._confirmed[signature] = time.monotonic()

    @override
    def call(self, method: str, params: Sequence[object]) -> object:
        if method == "bench_moments":
            return [self._sent, self._confirmed, self._reported]
        result = super().call(method, params)
        if method == "sendTransaction":
            self._sent.setdefault(str(result), time.monotonic())
        if method == "getTransaction" and result is not None:
            self._reported.setdefault(str(params[0]), time.monotonic())
        if method == "getSignatureStatuses":
            self._note(params[0], result)
        return result

    def _note(self, asked: object, result: object) -> None:
        assert isinstance(asked, list)
        assert isinstance(result, dict)
        for signature, status in zip(asked, result["value"], strict=True):
            if status is not None and status["confirmationStatus"] != "processed":
                self._reported.setdefault(signature, time.monotonic())


async def serve(port: int, buyers: int) -> None:
    vm = Vm(
        clock=SystemClock(),
        seed=SEED,
        pace=SlotPace(slot=SLOT_MS, land=LAND_MS, confirm=CONFIRM_MS),
    )
    for number in range(buyers):
        owner = vm.genesis.key(f"buyer {number}").pubkey()
        vm.genesis.endow(vm.bank, owner, lamports=10**9, atoms=ATOMS)
    methods = Watched(vm)
    vm.faults.set(Knobs(latency_ms={"*": LATENCY_MS, "bench_moments": 0}))
    beating = asyncio.create_task(_beat(Pulse(vm, slot_ms=SLOT_MS), methods))
    await server(answering(methods, vm.faults), port)
    beating.cancel()


async def _beat(pulse: Pulse, methods: Watched) -> None:
    while True:
        pulse.tick()
        methods.watch()
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
