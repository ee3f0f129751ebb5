"""Strict verification: each deviation has its refusal reason, and no bytes cause another error."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import CompiledInstruction, Instruction
from solders.message import MessageHeader, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519
from solders.system_program import ID as SYSTEM
from solders.system_program import AdvanceNonceAccountParams, advance_nonce_account
from solders.transaction import VersionedTransaction

from mintscope.kit.primitives import UnixMs, Wallet
from mintscope.payments.protocol.envelope import (
    TOKEN_2022_PROGRAM,
    Envelope,
    RefusalReason,
    Refused,
    Resource,
    open_envelope,
)
from mintscope.payments.protocol.memo import write_memo
from mintscope.payments.protocol.verify import PRIORITY_LAMPORTS_MAX, Asked, Verified, verify
from support.scenes.payments.payment_build import (
    COMPUTE_BUDGET,
    FEE_PAYER,
    LIGHTHOUSE,
    MEMO,
    PAYER,
    TERMS,
    Recipe,
    keypair,
    meta,
    sign,
)

NOW: Final = UnixMs(1_700_000_000_000)
QUOTE_KEY: Final = b"q" * 32
RESOURCE: Final = Resource("/v1/token/So11111111111111111111111111111111111111112")
AMOUNT: Final = 2_500
MEMO_TEXT: Final = write_memo(
    QUOTE_KEY, terms=TERMS, resource=RESOURCE, amount=AMOUNT, now=NOW, nonce=b"n" * 8
)
ASKED: Final = Asked(terms=TERMS, resource=RESOURCE, amount=AMOUNT, quote_key=QUOTE_KEY, now=NOW)
STRANGER: Final = keypair("stranger")
OTHER: Final = keypair("another mint").pubkey()


def recipe(**changes: Any) -> Recipe:
    parts: dict[str, Any] = {"amount": AMOUNT, "memo": MEMO_TEXT.encode()} | changes
    return Recipe(**parts)


def check(transaction: bytes, asked: Asked = ASKED) -> Verified | Refused:
    envelope = open_envelope(transaction)
    return envelope if isinstance(envelope, Refused) else verify(envelope, asked)


def reason(transaction: bytes) -> str:
    checked = check(transaction)
    assert isinstance(checked, Refused), checked
    return checked.reason


def memo(data: bytes, *accounts: Any) -> Instruction:
    return Instruction(MEMO, data, list(accounts))


def guard(data: bytes = b"\x06", *accounts: Any) -> Instruction:
    return Instruction(LIGHTHOUSE, data, list(accounts))


def test_the_official_payment_is_verified() -> None:
    verified = check(recipe().build())

    assert isinstance(verified, Verified)
    assert verified.amount == AMOUNT
    assert verified.source == TERMS.token_account(PAYER.pubkey())
    assert verified.fee_lamports == 10_001
    assert verified.envelope.payer == str(PAYER.pubkey())


@pytest.mark.parametrize("guards", [0, 1, 2, 3])
def test_wallets_may_add_their_guards(guards: int) -> None:
    """Phantom adds one to three instructions, and Solflare adds two."""
    extra = [guard(bytes([n]), meta(PAYER.pubkey(), signer=True)) for n in range(guards)]
    for instructions in (
        [*recipe().instructions(), *extra],
        [*recipe().instructions()[:3], *extra, memo(recipe().memo)],
    ):
        assert isinstance(check(recipe().build(instructions)), Verified)


def test_the_compute_budget_may_be_in_the_order_of_mpp() -> None:
    built = with_instructions(lambda listed: [listed[1], listed[0], *listed[2:]])

    assert isinstance(check(built), Verified)


def test_a_legacy_message_is_accepted() -> None:
    assert isinstance(check(recipe(legacy=True).build()), Verified)


def test_a_payment_by_token_2022_is_accepted_if_the_terms_name_it() -> None:
    terms = replace(TERMS, token_program=TOKEN_2022_PROGRAM)
    built = recipe(terms=terms).build()

    assert isinstance(check(built, replace(ASKED, terms=terms)), Verified)
    assert reason(built) == RefusalReason.TOKEN_PROGRAM


def with_transfer(**changes: Any) -> bytes:
    listed = recipe().instructions()
    return recipe().build([*listed[:2], recipe().transfer(**changes), listed[3]])


def with_instructions(change: Callable[[list[Instruction]], list[Instruction]]) -> bytes:
    return recipe().build(change(recipe().instructions()))


def transfer_data(amount: int, decimals: int = 6, kind: int = 12) -> bytes:
    return bytes([kind]) + amount.to_bytes(8, "little") + bytes([decimals])


def budget(units: int, micro_lamports: int) -> bytes:
    return recipe(
        units=b"\x02" + units.to_bytes(4, "little"),
        price=b"\x03" + micro_lamports.to_bytes(8, "little"),
    ).build()


def reshaped(
    *,
    header: MessageHeader | None = None,
    keys: list[Pubkey] | None = None,
    instructions: list[CompiledInstruction] | None = None,
) -> bytes:
    """Return the payment with a changed message, which no client library would compile."""
    message = recipe().message()
    return sign(
        MessageV0(
            header or message.header,
            keys or list(message.account_keys),
            Hash.default(),
            instructions or list(message.instructions),
            [],
        ),
        PAYER,
    )


def broken(index_of: str, index: int = 200) -> bytes:
    """Return a payment in which one index, of a program or an account, is *index*: out of range."""
    message = recipe().message()
    listed = list(message.instructions)
    accounts = bytes(listed[2].accounts)
    listed[2] = (
        CompiledInstruction(index, bytes(listed[2].data), accounts)
        if index_of == "program"
        else CompiledInstruction(
            listed[2].program_id_index, bytes(listed[2].data), accounts[:3] + bytes([index])
        )
    )
    return reshaped(instructions=listed)


def with_lookup_table() -> bytes:
    table = AddressLookupTableAccount(OTHER, [TERMS.treasury])
    message = MessageV0.try_compile(
        FEE_PAYER.pubkey(), recipe().instructions(), [table], Hash.default()
    )
    return sign(message, PAYER)


def with_signers(count: int) -> bytes:
    extra = [meta(keypair(f"signer {n}").pubkey(), signer=True) for n in range(count)]
    return with_instructions(lambda listed: [*listed[:3], memo(recipe().memo, *extra)])


def paid_by_payer() -> bytes:
    """Return a payment with one signature, because its payer is also the fee payer."""
    message = MessageV0.try_compile(PAYER.pubkey(), recipe().instructions(), [], Hash.default())
    return sign(message, PAYER)


def with_other_fee_payer() -> bytes:
    terms = replace(TERMS, fee_payer=Wallet(str(STRANGER.pubkey())))
    return recipe(terms=terms).build()


def signed_over_another_message() -> bytes:
    other = recipe(blockhash=Hash(bytes([8] * 32))).message()
    theirs = PAYER.sign_message(to_bytes_versioned(other))
    return bytes(VersionedTransaction.populate(recipe().message(), [Ed25519.default(), theirs]))


def flipped_signature() -> bytes:
    built = bytearray(recipe().build())
    built[1 + 64] ^= 1
    return bytes(built)


def with_durable_nonce() -> bytes:
    advance = advance_nonce_account(
        AdvanceNonceAccountParams(nonce_pubkey=OTHER, authorized_pubkey=PAYER.pubkey())
    )
    return with_instructions(lambda listed: [advance, *listed])


def with_silent_authority() -> bytes:
    listed = recipe().instructions()
    accounts = [*listed[2].accounts[:3], meta(STRANGER.pubkey())]
    transfer = Instruction(listed[2].program_id, bytes(listed[2].data), accounts)
    signer = meta(PAYER.pubkey(), signer=True)
    return recipe().build([*listed[:2], transfer, memo(recipe().memo, signer)])


def quoted(**changes: Any) -> bytes:
    parts: dict[str, Any] = {"terms": TERMS, "resource": RESOURCE, "amount": AMOUNT, "now": NOW}
    parts |= changes
    return recipe(memo=write_memo(QUOTE_KEY, nonce=b"n" * 8, **parts).encode()).build()


CORPUS: Final[dict[str, tuple[Callable[[], bytes], RefusalReason]]] = {
    "another mint": (lambda: with_transfer(mint=OTHER), RefusalReason.MINT),
    "another token program": (
        lambda: with_transfer(program=Pubkey.from_string(TOKEN_2022_PROGRAM)),
        RefusalReason.TOKEN_PROGRAM,
    ),
    "no token program": (lambda: with_transfer(program=SYSTEM), RefusalReason.TOKEN_PROGRAM),
    "another destination": (lambda: with_transfer(destination=OTHER), RefusalReason.RECIPIENT),
    "the payee's wallet itself": (
        lambda: with_transfer(destination=Pubkey.from_string(TERMS.pay_to)),
        RefusalReason.RECIPIENT,
    ),
    "another source": (lambda: with_transfer(source=OTHER), RefusalReason.SOURCE),
    "from the treasury to itself": (
        lambda: with_transfer(source=TERMS.treasury),
        RefusalReason.SOURCE,
    ),
    "the treasury's owner, who pays himself": (
        lambda: recipe(payer=keypair("treasury")).build(),
        RefusalReason.RECIPIENT,
    ),
    "one atom less": (lambda: recipe(amount=AMOUNT - 1).build(), RefusalReason.AMOUNT),
    "one atom more": (lambda: recipe(amount=AMOUNT + 1).build(), RefusalReason.AMOUNT),
    "zero atoms": (lambda: recipe(amount=0).build(), RefusalReason.AMOUNT),
    "transfer, not checked": (
        lambda: with_transfer(data=b"\x03" + AMOUNT.to_bytes(8, "little")),
        RefusalReason.NO_TRANSFER,
    ),
    "approve, checked": (
        lambda: with_transfer(data=transfer_data(AMOUNT, kind=13)),
        RefusalReason.NO_TRANSFER,
    ),
    "other decimals": (
        lambda: with_transfer(data=transfer_data(AMOUNT, decimals=9)),
        RefusalReason.DECIMALS,
    ),
    "trailing transfer data": (
        lambda: with_transfer(data=transfer_data(AMOUNT) + b"\0"),
        RefusalReason.NO_TRANSFER,
    ),
    "no transfer data": (lambda: with_transfer(data=b""), RefusalReason.NO_TRANSFER),
    "two transfers": (
        lambda: with_instructions(lambda listed: [*listed[:3], listed[2], listed[3]]),
        RefusalReason.UNKNOWN_PROGRAM,
    ),
    "creates an account": (
        lambda: with_instructions(
            lambda listed: [
                *listed,
                Instruction(SYSTEM, b"\0", [meta(PAYER.pubkey(), signer=True)]),
            ]
        ),
        RefusalReason.UNKNOWN_PROGRAM,
    ),
    "a third budget instruction": (
        lambda: with_instructions(
            lambda listed: [*listed, Instruction(COMPUTE_BUDGET, b"\x01\0\0\1\0", [])]
        ),
        RefusalReason.UNKNOWN_PROGRAM,
    ),
    "no instruction": (
        lambda: recipe().build([memo(b"", meta(PAYER.pubkey(), signer=True))]),
        RefusalReason.INSTRUCTION_COUNT,
    ),
    "eight instructions": (
        lambda: with_instructions(lambda listed: [*listed, *[guard()] * 4]),
        RefusalReason.INSTRUCTION_COUNT,
    ),
    "no memo": (lambda: with_instructions(lambda listed: listed[:3]), RefusalReason.MEMO_COUNT),
    "two memos": (
        lambda: with_instructions(lambda listed: [*listed, memo(b"hello")]),
        RefusalReason.MEMO_COUNT,
    ),
    "the quote twice": (
        lambda: with_instructions(lambda listed: [*listed, listed[3]]),
        RefusalReason.MEMO_COUNT,
    ),
    "memo not UTF-8": (lambda: recipe(memo=b"\xff" * 32).build(), RefusalReason.QUOTE_FORGED),
    "an empty memo": (lambda: recipe(memo=b"").build(), RefusalReason.QUOTE_FORGED),
    "a memo of another text": (lambda: recipe(memo=b"A" * 32).build(), RefusalReason.QUOTE_FORGED),
    "a quote for another resource": (
        lambda: quoted(resource=Resource("/v1/other")),
        RefusalReason.QUOTE_FORGED,
    ),
    "a quote of another amount": (lambda: quoted(amount=1), RefusalReason.QUOTE_FORGED),
    "an old quote": (lambda: quoted(now=NOW - 121_000), RefusalReason.QUOTE_EXPIRED),
    "one signature": (paid_by_payer, RefusalReason.SIGNERS),
    "three signatures": (lambda: with_signers(1), RefusalReason.SIGNERS),
    "nine signatures": (lambda: with_signers(7), RefusalReason.SIGNERS),
    "another fee payer": (with_other_fee_payer, RefusalReason.FEE_PAYER),
    "the fee payer signs a memo": (
        lambda: with_instructions(
            lambda listed: [*listed[:3], memo(recipe().memo, meta(FEE_PAYER.pubkey(), signer=True))]
        ),
        RefusalReason.FEE_PAYER_NOT_ISOLATED,
    ),
    "the fee payer pays for a wallet guard": (
        lambda: with_instructions(
            lambda listed: [
                *listed,
                guard(b"\0", meta(FEE_PAYER.pubkey(), signer=True, writable=True)),
            ]
        ),
        RefusalReason.FEE_PAYER_NOT_ISOLATED,
    ),
    "the fee payer owns the tokens": (
        lambda: recipe(payer=FEE_PAYER).build(
            [*recipe(payer=FEE_PAYER).instructions(), memo(b"", meta(PAYER.pubkey(), signer=True))]
        ),
        RefusalReason.FEE_PAYER_NOT_ISOLATED,
    ),
    "a stranger's tokens": (
        lambda: with_transfer(authority=STRANGER.pubkey()),
        RefusalReason.SOURCE,
    ),
    "an authority that does not sign": (with_silent_authority, RefusalReason.AUTHORITY),
    "no compute limit": (
        lambda: with_instructions(lambda listed: [listed[1], listed[1], *listed[2:]]),
        RefusalReason.COMPUTE_BUDGET,
    ),
    "budget after the transfer": (
        lambda: with_instructions(lambda listed: [listed[0], listed[2], listed[1], listed[3]]),
        RefusalReason.COMPUTE_BUDGET,
    ),
    "no compute price": (
        lambda: with_instructions(lambda listed: [listed[0], listed[0], *listed[2:]]),
        RefusalReason.COMPUTE_BUDGET,
    ),
    "a short compute limit": (
        lambda: recipe(units=b"\x02\0").build(),
        RefusalReason.COMPUTE_BUDGET,
    ),
    "no compute data": (lambda: recipe(units=b"").build(), RefusalReason.COMPUTE_BUDGET),
    "compute limit 1.4 M": (lambda: budget(1_400_000, 1), RefusalReason.COMPUTE_LIMIT_TOO_HIGH),
    "price of 5 lamports": (
        lambda: budget(200_000, 5_000_000),
        RefusalReason.PRIORITY_FEE_TOO_HIGH,
    ),
    "the highest possible price": (
        lambda: budget(1, 2**64 - 1),
        RefusalReason.PRIORITY_FEE_TOO_HIGH,
    ),
    "just above the fee cap": (
        lambda: budget(400_000, 25_001),
        RefusalReason.PRIORITY_FEE_TOO_HIGH,
    ),
    "a durable nonce": (with_durable_nonce, RefusalReason.COMPUTE_BUDGET),
    "a lookup table": (with_lookup_table, RefusalReason.LOOKUP_TABLES),
    "program index out of range": (lambda: broken("program"), RefusalReason.ACCOUNTS),
    "account index out of range": (lambda: broken("account"), RefusalReason.ACCOUNTS),
    "the first program index out of range": (
        lambda: broken("program", len(recipe().message().account_keys)),
        RefusalReason.ACCOUNTS,
    ),
    "the first account index out of range": (
        lambda: broken("account", len(recipe().message().account_keys)),
        RefusalReason.ACCOUNTS,
    ),
    "an account named twice": (
        lambda: reshaped(keys=[*recipe().message().account_keys, TERMS.treasury]),
        RefusalReason.ACCOUNTS,
    ),
    "no one may write": (
        lambda: reshaped(header=MessageHeader(2, 2, 1)),
        RefusalReason.ACCOUNTS,
    ),
    "more readers than accounts": (
        lambda: reshaped(header=MessageHeader(2, 1, 100)),
        RefusalReason.ACCOUNTS,
    ),
    "a heap frame for a compute limit": (
        lambda: recipe(units=b"\x01" + (32_768).to_bytes(4, "little")).build(),
        RefusalReason.COMPUTE_BUDGET,
    ),
    "a memo for a compute limit": (
        lambda: with_instructions(lambda listed: [memo(b"\x02abcd"), *listed[1:]]),
        RefusalReason.COMPUTE_BUDGET,
    ),
    "signature of another message": (signed_over_another_message, RefusalReason.SIGNATURE),
    "a flipped signature": (flipped_signature, RefusalReason.SIGNATURE),
    "trailing bytes": (lambda: recipe().build() + b"\0", RefusalReason.NOT_CANONICAL),
    "cut short": (lambda: recipe().build()[:-1], RefusalReason.UNDECODABLE),
    "version 1": (lambda: b"\x81" + bytes(1300), RefusalReason.VERSION),
    "no bytes": (lambda: b"", RefusalReason.UNDECODABLE),
    "too many bytes": (lambda: bytes(1233), RefusalReason.TOO_LONG),
}


@pytest.mark.parametrize("name", CORPUS)
def test_every_deviation_has_its_reason(name: str) -> None:
    build, expected = CORPUS[name]

    assert reason(build()) == expected


def test_a_fee_at_the_exact_cap_is_accepted() -> None:
    at_the_cap = check(budget(400_000, 25_000))

    assert isinstance(at_the_cap, Verified)
    assert at_the_cap.fee_lamports == 10_000 + PRIORITY_LAMPORTS_MAX


def test_the_corpus_has_every_reason_that_is_found_without_the_chain() -> None:
    """Missing are only the refusal reasons that need the chain, the store or a header."""
    beyond = {
        RefusalReason.NO_MATCHING_REQUIREMENT,
        RefusalReason.DEMO,
        RefusalReason.QUOTE_USED,
        RefusalReason.INSUFFICIENT_FUNDS,
        RefusalReason.SIMULATION,
        RefusalReason.BLOCKHASH,
        RefusalReason.NETWORK_FEE,
        RefusalReason.FUNDS,
        RefusalReason.TOO_MANY_FAILURES,
        RefusalReason.TOO_MANY_PENDING,
        RefusalReason.REVERTED,
        RefusalReason.EXPIRED,
        RefusalReason.VANISHED,
        RefusalReason.UNDERPAID,
    }

    assert {expected for _, expected in CORPUS.values()} == set(RefusalReason) - beyond


def test_the_empty_signature_slot_does_not_change_the_payment() -> None:
    """Anyone can fill the fee payer's empty slot, so the hash of the message is the identity."""
    built = recipe().build()
    filled = built[:1] + b"\x09" * 64 + built[65:]
    one, other = open_envelope(built), open_envelope(filled)

    assert isinstance(one, Envelope)
    assert isinstance(other, Envelope)
    assert built != filled
    assert one.message_hash == other.message_hash
    assert one.sign(FEE_PAYER) == other.sign(FEE_PAYER)


def test_a_signed_payment_has_both_signatures() -> None:
    verified = check(recipe().build())
    assert isinstance(verified, Verified)
    signed = verified.envelope.sign(FEE_PAYER)
    sent = VersionedTransaction.from_bytes(signed.wire)

    assert sent.verify_with_results() == [True, True]
    assert str(sent.signatures[0]) == signed.signature


WHOLE: Final = recipe().build()
GUARDED: Final = recipe().build([*recipe().instructions(), guard(b"\x06" * 40, meta(OTHER))])


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.binary(max_size=1300))
def test_any_bytes_are_refused(data: bytes) -> None:
    assert isinstance(check(data), Refused)


mutations = st.lists(
    st.tuples(
        st.integers(0, 700), st.sampled_from(["flip", "set", "cut", "repeat"]), st.integers(0, 255)
    ),
    min_size=1,
    max_size=4,
)


def mutate(data: bytes, edits: list[tuple[int, str, int]]) -> bytes:
    for place, kind, value in edits:
        at = place % (len(data) or 1)
        match kind:
            case "flip":
                data = (
                    data[:at] + bytes([data[at] ^ (value or 1)]) + data[at + 1 :] if data else data
                )
            case "set":
                data = data[:at] + bytes([value]) + data[at + 1 :]
            case "cut":
                data = data[:at] + data[at + value % 8 :]
            case _:
                data = data[:at] + data[at : at + 1] * (value % 8) + data[at:]
    return data


@pytest.mark.storm
@settings(max_examples=700, deadline=None, derandomize=True)
@given(st.sampled_from([WHOLE, GUARDED]), mutations)
def test_no_mutation_of_the_signed_bytes_is_accepted(
    original: bytes, edits: list[tuple[int, str, int]]
) -> None:
    """The payer's signature covers everything but the slot of the fee payer's signature."""
    mutated = mutate(original, edits)
    checked = check(mutated)
    if isinstance(checked, Verified):
        assert mutated[65:] == original[65:]
        assert mutated[:1] == original[:1]


@pytest.mark.storm
@settings(max_examples=400, deadline=None, derandomize=True)
@given(mutations)
def test_a_signed_mutation_is_accepted_only_with_the_requested_transfer(
    edits: list[tuple[int, str, int]],
) -> None:
    message = mutate(WHOLE[1 + 128 :], edits)
    signature = bytes(PAYER.sign_message(message))
    checked = check(b"\x02" + bytes(64) + signature + message)
    if isinstance(checked, Verified):
        assert checked.amount == AMOUNT
        assert checked.fee_lamports <= 10_000 + PRIORITY_LAMPORTS_MAX
        accounts = checked.envelope.accounts
        transfer = checked.envelope.message.instructions[2]
        assert [accounts[index] for index in bytes(transfer.accounts)][1:3] == [
            Pubkey.from_string(TERMS.asset),
            TERMS.treasury,
        ]
