"""QuickMachine, the virtual machine of payment tests, behaves like the LiteSVM of a devchain."""

from typing import Any

import pytest
from paying import PayingChain
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM

from mintscope_devchain.svm import bank
from support.scenes.payments.quick_machines import PROGRAMS, QuickMachine

STRANGER = Keypair.from_seed(bytes(32)).pubkey()


def paid(monkeypatch: pytest.MonkeyPatch, machine: type[LiteSVM]) -> list[Any]:
    """Return the transactions of two payments, one with a memo, on a chain that uses *machine*."""
    monkeypatch.setattr(bank, "LiteSVM", machine)
    chain = PayingChain()
    signatures = [chain.send(chain.payment()), chain.send(chain.payment("a memo"))]
    chain.slots(40)
    return [chain.entry(signature) for signature in signatures]


def test_both_machines_return_the_same_payment_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paid(monkeypatch, QuickMachine) == paid(monkeypatch, LiteSVM)


@pytest.mark.parametrize("address", [*PROGRAMS, SYSTEM, STRANGER])
def test_both_machines_have_the_same_account_at_each_address(address: Pubkey) -> None:
    assert QuickMachine().get_account(address) == LiteSVM().get_account(address)


def test_both_machines_have_the_same_slot_rent_and_epoch_schedule() -> None:
    quick, whole = QuickMachine(), LiteSVM()

    assert quick.get_clock().slot == whole.get_clock().slot
    assert quick.get_rent() == whole.get_rent()
    assert quick.get_epoch_schedule() == whole.get_epoch_schedule()
    assert quick.minimum_balance_for_rent_exemption(165) == (
        whole.minimum_balance_for_rent_exemption(165)
    )


def test_an_account_that_replaces_a_program_is_kept() -> None:
    quick, program = QuickMachine(), LiteSVM().get_account(PROGRAMS[-1])
    assert program is not None
    quick.set_account(PROGRAMS[0], program)

    assert quick.get_account(PROGRAMS[0]) == program
