"""A bank that had another's machine is as a new one: what every test of payments stands on."""

from solders.account import Account
from solders.litesvm import LiteSVM
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.token import ID as TOKEN
from solders.transaction import Transaction, VersionedTransaction

from mintscope.devchain.svm.bank import Bank
from mintscope.devchain.svm.genesis import Genesis
from support.scenes.recycled_banks import RecycledBank


def accounts_of(bank: Bank, addresses: list[Pubkey]) -> list[Account | None]:
    return [bank.account(address) for address in addresses]


def used(genesis: Genesis, stranger: Pubkey) -> tuple[LiteSVM, list[Pubkey]]:
    """Use a bank and let it go; return its machine and the addresses that were written."""
    bank, payer = RecycledBank(), genesis.key("buyer")
    genesis.apply(bank)
    genesis.endow(bank, payer.pubkey(), lamports=10**9, atoms=5)
    bank.tell_time(slot=7, time_s=1_800_000_000)
    call = transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=stranger, lamports=10**8))
    message = Message.new_with_blockhash([call], payer.pubkey(), genesis.blockhash(0))
    outcome = bank.execute(
        VersionedTransaction.from_legacy(Transaction([payer], message, genesis.blockhash(0)))
    )
    assert outcome.landed
    written = [stranger, payer.pubkey(), genesis.mint, genesis.usdc, genesis.treasury_tokens]
    assert None not in accounts_of(bank, written)
    machine = bank._svm  # noqa: SLF001 - is it the same machine?
    bank.end()
    return machine, written


def test_the_next_bank_sees_nothing_of_the_one_before() -> None:
    genesis, stranger = Genesis(9), Pubkey.new_unique()
    machine, written = used(genesis, stranger)
    new, again = Bank(), RecycledBank()
    assert again._svm is machine  # noqa: SLF001
    assert accounts_of(again, written) == accounts_of(new, written) == [None] * len(written)
    assert again._svm.get_clock() == new._svm.get_clock()  # noqa: SLF001
    assert again.token_accounts == {}
    assert used(genesis, stranger)[0] is not machine


def test_a_machine_whose_programs_were_replaced_is_not_given_again() -> None:
    bank = RecycledBank()
    bank.put(TOKEN, bank.account(TOKEN))
    machine = bank._svm  # noqa: SLF001 - alive: no other gets its id
    bank.end()
    assert RecycledBank()._svm is not machine  # noqa: SLF001
