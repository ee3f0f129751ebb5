/** Why a call failed. `code` is the service's own word; docs/api.md says what to do for each. */
/** Base of all that a client throws. */
export declare class ClientError extends Error {
    name: string;
}
/** The details of a refusal. */
export interface Refusal {
    readonly status: number;
    readonly code: string;
    readonly message: string;
    readonly requestId: string | null;
    /** How long the service asks to be left alone, if it says so. */
    readonly retryAfterMs: number | null;
}
/** The service refused; nothing was charged. */
export declare class RefusedError extends ClientError {
    readonly status: number;
    readonly code: string;
    readonly requestId: string | null;
    readonly retryAfterMs: number | null;
    /** Of a payment that was sent and may land all the same: the same call with it redeems it. */
    key: string | null;
    constructor(refusal: Refusal);
}
/** 400 and the like: correct the call. */
export declare class WrongCallError extends RefusedError {
}
/** 401, 403: send another credential. */
export declare class CredentialRefusedError extends RefusedError {
}
/** 402: buy credits, or pay. */
export declare class UnpaidError extends RefusedError {
}
/** 404: the mint is not tracked, or has too few trades yet. */
export declare class NothingThereError extends RefusedError {
}
/** 409: the call contradicts an earlier one. */
export declare class ConflictError extends RefusedError {
}
/** 429: wait `retryAfterMs`. */
export declare class TooManyRequestsError extends RefusedError {
}
/** 5xx: try again later. */
export declare class NotNowError extends RefusedError {
}
/** INVALID_TOKEN_ADDRESS: the mint is not base58 of 32 bytes. */
export declare class InvalidTokenAddressError extends WrongCallError {
}
/** INVALID_BUNDLE: no bundle of this size is for sale. */
export declare class InvalidBundleError extends WrongCallError {
}
/** INVALID_PAYMENT: the payment header cannot be read. */
export declare class InvalidPaymentError extends WrongCallError {
}
/** MISSING_TOKEN: this call needs a credential. */
export declare class MissingCredentialError extends CredentialRefusedError {
}
/** INVALID_TOKEN: the credential was rotated or revoked, or never existed. */
export declare class UnknownCredentialError extends CredentialRefusedError {
}
/** INSUFFICIENT_SCOPE: the API key is good, but not for this. */
export declare class MissingScopeError extends CredentialRefusedError {
}
/** PAYMENT_REQUIRED: neither a credential nor a payment was sent. */
export declare class PaymentRequiredError extends UnpaidError {
}
/** INSUFFICIENT_CREDITS: the credential is good and holds too few credits. */
export declare class NoCreditsError extends UnpaidError {
}
/** KEY_CAP_REACHED: the API key has reached its cap of this month. */
export declare class KeyCapError extends UnpaidError {
}
/** PAYMENT_FAILED: the payment is refused, or failed on chain. */
export declare class PaymentRefusedError extends UnpaidError {
}
/** TOKEN_NOT_FOUND: the service does not follow this mint. */
export declare class NotTrackedError extends NothingThereError {
}
/** INSUFFICIENT_DATA: the mint has too few trades yet. */
export declare class TooLittleDataError extends NothingThereError {
}
/** PAYMENT_ALREADY_USED: the payment or its key belongs to an earlier call. */
export declare class PaymentUsedError extends ConflictError {
}
/** DATA_STALE: the newest data is too old to be sold. */
export declare class StaleDataError extends NotNowError {
}
/** PRICE_UNAVAILABLE: the payment token has no price now; credits go on. */
export declare class NoPriceError extends NotNowError {
}
/** PAYMENT_PENDING: it is not known yet whether a payment arrives: do not pay again. */
export declare class OutcomeUnknownError extends NotNowError {
}
/** PAYMENT_UNAVAILABLE: the service can take no payment now; credits go on. */
export declare class NoPaymentsError extends NotNowError {
}
/** No answer came; a credit may have gone where `mayBeCharged`. */
export declare class UnreachableError extends ClientError {
    readonly mayBeCharged: boolean;
    constructor(message: string, options: ErrorOptions & {
        mayBeCharged: boolean;
    });
}
/** An answer came that is not what the service documents. */
export declare class UnreadableError extends ClientError {
}
/** The call may cost more than the budget allows; nothing was sent or signed. */
export declare class OverBudgetError extends ClientError {
}
/** The demand is not one that is paid: another asset, another payee. Nothing was signed. */
export declare class WillNotPayError extends ClientError {
}
/** A payment was sent and its outcome is unknown: the same call with `key` redeems it. */
export declare class PendingError extends ClientError {
    readonly key: string;
    constructor(key: string);
}
/** Return the exception of `refusal`: that of its code; of its status if the code is new. */
export declare function refused(refusal: Refusal): RefusedError;
