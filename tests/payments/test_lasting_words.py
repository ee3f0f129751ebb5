"""Words that no version may change: clients compare them; rows and old backups contain them."""

import hmac

from mintscope.credits.invariants import DOUBTED_LOOKS, SETTLED_AFTER_MS, Invariant
from mintscope.kit.credentials import CredentialHash, make_credit_token
from mintscope.kit.primitives import Wallet
from mintscope.kit.time import DAY_MS
from mintscope.payments.audit import DoubtKind, ScanScope
from mintscope.payments.payment import State
from mintscope.payments.protocol.envelope import (
    HELD_OPEN_S,
    MAINNET,
    SCHEME,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    MessageHash,
    RefusalReason,
    Refused,
)
from mintscope.payments.reconciler import GENERATED_KEY_BYTES, REDELIVERY_MS, Secrets


def test_refusal_reasons_have_these_codes() -> None:
    assert {reason.name: reason.value for reason in RefusalReason} == {
        "NO_MATCHING_REQUIREMENT": "no_matching_requirement",
        "DEMO": "demo_sells_nothing",
        "VERSION": "transaction_version_not_supported",
        "UNDECODABLE": "transaction_undecodable",
        "TOO_LONG": "transaction_too_long",
        "NOT_CANONICAL": "transaction_not_canonical",
        "SIGNERS": "signers",
        "FEE_PAYER": "fee_payer",
        "FEE_PAYER_NOT_ISOLATED": "fee_payer_not_isolated",
        "LOOKUP_TABLES": "lookup_tables_not_allowed",
        "ACCOUNTS": "accounts",
        "INSTRUCTION_COUNT": "instruction_count",
        "COMPUTE_BUDGET": "compute_budget",
        "COMPUTE_LIMIT_TOO_HIGH": "compute_limit_too_high",
        "PRIORITY_FEE_TOO_HIGH": "priority_fee_too_high",
        "NO_TRANSFER": "transfer_checked_expected",
        "TOKEN_PROGRAM": "token_program_mismatch",
        "MINT": "mint_mismatch",
        "DECIMALS": "decimals_mismatch",
        "RECIPIENT": "recipient_mismatch",
        "SOURCE": "source_not_payers_token_account",
        "AUTHORITY": "authority_not_payer",
        "AMOUNT": "amount_mismatch",
        "UNKNOWN_PROGRAM": "unknown_program",
        "MEMO_COUNT": "one_memo_expected",
        "QUOTE_FORGED": "quote_invalid",
        "QUOTE_EXPIRED": "quote_expired",
        "QUOTE_USED": "quote_used",
        "SIGNATURE": "invalid_signature",
        "INSUFFICIENT_FUNDS": "insufficient_funds",
        "SIMULATION": "simulation_failed",
        "BLOCKHASH": "blockhash_not_found",
        "NETWORK_FEE": "network_fee_too_high",
        "FUNDS": "insufficient_funds_for_pending_payments",
        "TOO_MANY_FAILURES": "too_many_failed_payments",
        "TOO_MANY_PENDING": "too_many_pending_payments",
        "REVERTED": "transaction_failed",
        "EXPIRED": "transaction_expired",
        "VANISHED": "transaction_vanished",
        "UNDERPAID": "amount_received_too_small",
    }


def test_a_refusal_has_an_empty_signature_by_default() -> None:
    assert Refused(RefusalReason.MINT).signature == ""


def test_states_scopes_and_doubts_have_these_names_in_rows() -> None:
    assert [*State] == ["pending", "issued", "failed", "frozen"]
    assert [*ScanScope] == ["new", "all"]
    assert [*DoubtKind] == ["arrived", "issued"]


def test_each_invariant_has_this_number_and_this_text() -> None:
    assert {each.name: each.partition(":")[0] for each in Invariant} == {
        "LANDED_IS_ISSUED": "I1",
        "LANDED_IS_KNOWN": "I6",
        "ISSUED_IS_FINAL": "I1",
        "ISSUED_IS_ENTERED": "I1",
        "ENTRY_IS_PAID": "I1",
        "PAID_IS_ENOUGH": "I9",
        "BALANCE_IS_SUM": "I2",
        "KEYS_ADD_UP": "I2",
        "MOVES_CANCEL": "I2",
        "ROTATIONS_CANCEL": "I2",
        "FREEZES_CANCEL": "I2",
        "MONTHS_ARE_CHAINED": "I2",
    }
    assert [*Invariant] == [
        "I1: a payment landed and is not issued",
        "I6: a payment that we signed landed and has no row",
        "I1: a payment was issued and does not become final",
        "I1: a purchase was issued and the journal does not say so",
        "I1: the journal holds a purchase that no payment made",
        "I9: a payment was issued for less than its price",
        "I2: a balance is not the sum of its entries",
        "I2: what an API key has spent in a month is not what the journal says",
        "I2: credits that a user moved are not what the journal says",
        "I2: rotations have made or lost credits",
        "I2: what was frozen is not what the payments say",
        "I2: a closed month has changed since it was closed",
    ]


def test_a_doubt_lasts_three_looks_and_five_minutes() -> None:
    """The numbers are those of docs/operating/sell.md."""
    assert (DOUBTED_LOOKS, SETTLED_AFTER_MS) == (3, 300_000)


def test_the_scheme_the_network_and_the_programs_have_official_names() -> None:
    assert (SCHEME, MAINNET) == ("exact", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")
    assert TOKEN_PROGRAM == "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
    assert TOKEN_2022_PROGRAM == "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
    assert HELD_OPEN_S == 60


def test_keys_and_tokens_are_derived_as_in_older_versions() -> None:
    """Both are derived from the pepper and never stored: a new derivation would void them all."""
    root = b"r" * 32
    secrets = Secrets.derive(root)

    def derived(use: bytes) -> bytes:
        return hmac.digest(root, b"mintscope " + use + b" 1", "sha256")

    assert secrets == Secrets(
        quote=derived(b"quote"),
        redeem=derived(b"redeem"),
        token=derived(b"token"),
        rotation=derived(b"rotation"),
        receipt=derived(b"receipt"),
        pepper=root,
    )
    message, drawn = MessageHash(b"m" * 32), b"d" * GENERATED_KEY_BYTES
    mac = hmac.digest(secrets.redeem, b"one-time key\n" + message + drawn, "sha256")[:16]
    key = hmac.digest(secrets.redeem, b"p\nkey", "sha256")
    token = hmac.digest(secrets.token, message + b"key", "sha256")[:28]

    assert secrets.nonce("key") == hmac.digest(secrets.redeem, b"nonce\nkey", "sha256")[:8]
    assert secrets.one_time_key(message, drawn) == (drawn + mac).hex()
    assert secrets.made_key((drawn + mac).hex(), message)
    assert not secrets.made_key((drawn + mac).hex(), MessageHash(b"x" * 32))
    assert not secrets.made_key("no hexadecimal", message)
    assert secrets.key_hash("key", Wallet("p")) == key
    assert secrets.holds("key", Wallet("p"), CredentialHash(key))
    assert not secrets.holds("another", Wallet("p"), CredentialHash(key))
    assert secrets.credit_token(message, "key") == make_credit_token(token)
    assert (GENERATED_KEY_BYTES, REDELIVERY_MS) == (24, DAY_MS)
