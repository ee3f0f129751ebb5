"""Payment constants that must not change, because clients, operators or the chain rely on them."""

from mintscope.payments.audit import PAGES_MAX, ScanScope
from mintscope.payments.ports import (
    FEE_SHARES,
    FINAL_AFTER_SLOTS,
    LEASE_MS_MAX,
    SPARE_LAMPORTS,
    WALLET_LAMPORTS_MIN,
    final_after_ms,
)
from mintscope.payments.protocol.envelope import (
    FEE_PAYER_AT,
    PAYER_AT,
    SIGNER_COUNT,
    TRANSACTION_BYTES_MAX,
)
from mintscope.payments.protocol.memo import (
    FORBIDDEN,
    FROZEN,
    MEMO_BYTES,
    MINT_BYTES,
    NONCE_BYTES,
    TOKEN_ACCOUNT_BYTES,
    USABLE,
    VALID_S,
)
from mintscope.payments.protocol.verify import (
    COMPUTE_UNITS_MAX,
    FEE_LAMPORTS_MIN,
    INSTRUCTION_COUNT_MAX,
    INSTRUCTION_COUNT_MIN,
    MICRO,
    PRIORITY_LAMPORTS_MAX,
)
from mintscope.payments.reconciler import APART_MS_MAX, BATCH, LEASE_SLOTS, PAUSE_SLOTS


def test_the_sizes_and_fees_of_the_chain_are_unchanged() -> None:
    assert (TRANSACTION_BYTES_MAX, SIGNER_COUNT, FEE_PAYER_AT, PAYER_AT) == (1_232, 2, 0, 1)
    assert (MINT_BYTES, TOKEN_ACCOUNT_BYTES, USABLE, FROZEN) == (82, 165, 1, 2)
    assert (FEE_LAMPORTS_MIN, MICRO, WALLET_LAMPORTS_MIN) == (10_000, 1_000_000, 890_880)


def test_a_quote_is_valid_for_120_seconds_and_its_memo_has_32_bytes() -> None:
    assert (VALID_S, NONCE_BYTES, MEMO_BYTES) == (120, 8, 32)


def test_the_limits_of_a_payment_and_of_its_fees_are_unchanged() -> None:
    assert (INSTRUCTION_COUNT_MIN, INSTRUCTION_COUNT_MAX) == (3, 7)
    assert (COMPUTE_UNITS_MAX, PRIORITY_LAMPORTS_MAX) == (400_000, 10_000)
    assert (FEE_SHARES, SPARE_LAMPORTS) == (10, 2_000_000)


def test_the_intervals_and_batches_of_reconciler_and_auditor_are_unchanged() -> None:
    """A node accepts at most 256 signatures in one request for statuses."""
    assert (BATCH, LEASE_SLOTS, PAUSE_SLOTS, APART_MS_MAX) == (256, 25, 2.5, 3_600_000)
    assert (LEASE_MS_MAX, FINAL_AFTER_SLOTS) == (7_200_000, 40)
    assert [final_after_ms(slot_s) for slot_s in (0.1, 0.2, 0.4, 0.8)] == [
        4_000,
        8_000,
        16_000,
        32_000,
    ]
    assert {ScanScope.NEW: 8, ScanScope.ALL: 1} == PAGES_MAX


def test_forbidden_token_extensions_have_these_descriptions() -> None:
    """The keys are the extension types of Token-2022."""
    assert FORBIDDEN == {
        1: "a transfer fee",
        4: "confidential transfers",
        6: "accounts that are frozen when opened",
        9: "tokens that cannot be transferred",
        12: "a permanent delegate",
        14: "a transfer hook",
        16: "a confidential transfer fee",
        26: "a pause switch",
    }
