"""Every reason for which a payment is refused, and the code that x402 has for it.

Source    x402 v2, specs/x402-specification-v2.md, section 9; its packages for `exact` on Solana
"""

from typing import Final

import msgspec

from mintscope.base.errors import StrEnum


class RefusalReason(StrEnum):
    """One word per rule; a client learns from it what to do differently."""

    # read from the header
    NO_MATCHING_REQUIREMENT = "no_matching_requirement"
    DEMO = "demo_sells_nothing"
    # read from the transaction alone
    VERSION = "transaction_version_not_supported"
    UNDECODABLE = "transaction_undecodable"
    TOO_LONG = "transaction_too_long"
    NOT_CANONICAL = "transaction_not_canonical"
    SIGNERS = "signers"
    FEE_PAYER = "fee_payer"
    FEE_PAYER_NOT_ISOLATED = "fee_payer_not_isolated"
    LOOKUP_TABLES = "lookup_tables_not_allowed"
    ACCOUNTS = "accounts"
    INSTRUCTION_COUNT = "instruction_count"
    COMPUTE_BUDGET = "compute_budget"
    COMPUTE_LIMIT_TOO_HIGH = "compute_limit_too_high"
    PRIORITY_FEE_TOO_HIGH = "priority_fee_too_high"
    NO_TRANSFER = "transfer_checked_expected"
    TOKEN_PROGRAM = "token_program_mismatch"  # noqa: S105  a token, not a password
    MINT = "mint_mismatch"
    DECIMALS = "decimals_mismatch"
    RECIPIENT = "recipient_mismatch"
    SOURCE = "source_not_payers_token_account"
    AUTHORITY = "authority_not_payer"
    AMOUNT = "amount_mismatch"
    UNKNOWN_PROGRAM = "unknown_program"
    MEMO_COUNT = "one_memo_expected"
    QUOTE_FORGED = "quote_invalid"
    QUOTE_EXPIRED = "quote_expired"
    QUOTE_USED = "quote_used"
    SIGNATURE = "invalid_signature"
    # learned from the chain and from the payer's other payments
    INSUFFICIENT_FUNDS = "insufficient_funds"
    SIMULATION = "simulation_failed"
    BLOCKHASH = "blockhash_not_found"
    NETWORK_FEE = "network_fee_too_high"
    FUNDS = "insufficient_funds_for_pending_payments"
    TOO_MANY_FAILURES = "too_many_failed_payments"
    TOO_MANY_PENDING = "too_many_pending_payments"
    REVERTED = "transaction_failed"
    EXPIRED = "transaction_expired"
    VANISHED = "transaction_vanished"
    UNDERPAID = "amount_received_too_small"

    @property
    def official(self) -> str:
        """The code of x402; our own if x402 has none."""
        return _OFFICIAL.get(self, self.value)


_OF_SOLANA: Final = "invalid_exact_svm_payload"
_OF_TRANSACTION: Final = f"{_OF_SOLANA}_transaction"
_OFFICIAL: Final = {
    RefusalReason.NO_MATCHING_REQUIREMENT: "invalid_payment_requirements",
    RefusalReason.UNDECODABLE: f"{_OF_TRANSACTION}_could_not_be_decoded",
    RefusalReason.TOO_LONG: f"{_OF_TRANSACTION}_could_not_be_decoded",
    RefusalReason.NOT_CANONICAL: f"{_OF_TRANSACTION}_could_not_be_decoded",
    RefusalReason.SIGNERS: _OF_SOLANA,
    RefusalReason.FEE_PAYER: "fee_payer_not_managed_by_facilitator",
    RefusalReason.FEE_PAYER_NOT_ISOLATED: f"{_OF_TRANSACTION}_fee_payer_transferring_funds",
    RefusalReason.LOOKUP_TABLES: _OF_SOLANA,
    RefusalReason.ACCOUNTS: _OF_SOLANA,
    RefusalReason.INSTRUCTION_COUNT: f"{_OF_TRANSACTION}_instructions_length",
    RefusalReason.COMPUTE_BUDGET: f"{_OF_TRANSACTION}_instructions_compute_limit_instruction",
    RefusalReason.COMPUTE_LIMIT_TOO_HIGH: (
        f"{_OF_TRANSACTION}_instructions_compute_limit_instruction"
    ),
    RefusalReason.PRIORITY_FEE_TOO_HIGH: (
        f"{_OF_TRANSACTION}_instructions_compute_price_instruction_too_high"
    ),
    RefusalReason.NO_TRANSFER: f"{_OF_SOLANA}_no_transfer_instruction",
    RefusalReason.TOKEN_PROGRAM: f"{_OF_SOLANA}_no_transfer_instruction",
    RefusalReason.MINT: f"{_OF_SOLANA}_mint_mismatch",
    RefusalReason.DECIMALS: f"{_OF_SOLANA}_mint_mismatch",
    RefusalReason.RECIPIENT: f"{_OF_SOLANA}_recipient_mismatch",
    RefusalReason.SOURCE: _OF_SOLANA,
    RefusalReason.AUTHORITY: _OF_SOLANA,
    RefusalReason.AMOUNT: f"{_OF_SOLANA}_amount_mismatch",
    RefusalReason.UNKNOWN_PROGRAM: f"{_OF_SOLANA}_unknown_optional_instruction",
    RefusalReason.MEMO_COUNT: f"{_OF_SOLANA}_memo_count",
    RefusalReason.QUOTE_FORGED: f"{_OF_SOLANA}_memo_mismatch",
    RefusalReason.QUOTE_USED: "duplicate_settlement",
    RefusalReason.SIMULATION: "transaction_simulation_failed",
    RefusalReason.BLOCKHASH: "transaction_simulation_failed",
    RefusalReason.FUNDS: "insufficient_funds",
}


class Refused(msgspec.Struct, frozen=True):
    """The payment is not accepted, and the payer has not been charged for it.

    signature    of the transaction on chain, where one was broadcast
    version      of the transaction, where it is that which is refused
    """

    reason: RefusalReason
    signature: str = ""
    version: int | None = None
