/** Why a call failed. `code` is the service's own word; docs/api.md says what to do for each. */
/** Base of all that a client throws. */
export class ClientError extends Error {
    name = this.constructor.name;
}
/** The service refused; nothing was charged. */
export class RefusedError extends ClientError {
    status;
    code;
    requestId;
    retryAfterMs;
    /** Of a payment that was sent and may land all the same: the same call with it redeems it. */
    key = null;
    constructor(refusal) {
        super(`${refusal.status} ${refusal.code}: ${refusal.message}`);
        this.status = refusal.status;
        this.code = refusal.code;
        this.requestId = refusal.requestId;
        this.retryAfterMs = refusal.retryAfterMs;
    }
}
/** 400 and the like: correct the call. */
export class WrongCallError extends RefusedError {
}
/** 401, 403: send another credential. */
export class CredentialRefusedError extends RefusedError {
}
/** 402: buy credits, or pay. */
export class UnpaidError extends RefusedError {
}
/** 404: the mint is not tracked, or has too few trades yet. */
export class NothingThereError extends RefusedError {
}
/** 409: the call contradicts an earlier one. */
export class ConflictError extends RefusedError {
}
/** 429: wait `retryAfterMs`. */
export class TooManyRequestsError extends RefusedError {
}
/** 5xx: try again later. */
export class NotNowError extends RefusedError {
}
/** INVALID_TOKEN_ADDRESS: the mint is not base58 of 32 bytes. */
export class InvalidTokenAddressError extends WrongCallError {
}
/** INVALID_BUNDLE: no bundle of this size is for sale. */
export class InvalidBundleError extends WrongCallError {
}
/** INVALID_PAYMENT: the payment header cannot be read. */
export class InvalidPaymentError extends WrongCallError {
}
/** MISSING_TOKEN: this call needs a credential. */
export class MissingCredentialError extends CredentialRefusedError {
}
/** INVALID_TOKEN: the credential was rotated or revoked, or never existed. */
export class UnknownCredentialError extends CredentialRefusedError {
}
/** INSUFFICIENT_SCOPE: the API key is good, but not for this. */
export class MissingScopeError extends CredentialRefusedError {
}
/** PAYMENT_REQUIRED: neither a credential nor a payment was sent. */
export class PaymentRequiredError extends UnpaidError {
}
/** INSUFFICIENT_CREDITS: the credential is good and holds too few credits. */
export class NoCreditsError extends UnpaidError {
}
/** KEY_CAP_REACHED: the API key has reached its cap of this month. */
export class KeyCapError extends UnpaidError {
}
/** PAYMENT_FAILED: the payment is refused, or failed on chain. */
export class PaymentRefusedError extends UnpaidError {
}
/** TOKEN_NOT_FOUND: the service does not follow this mint. */
export class NotTrackedError extends NothingThereError {
}
/** INSUFFICIENT_DATA: the mint has too few trades yet. */
export class TooLittleDataError extends NothingThereError {
}
/** PAYMENT_ALREADY_USED: the payment or its key belongs to an earlier call. */
export class PaymentUsedError extends ConflictError {
}
/** DATA_STALE: the newest data is too old to be sold. */
export class StaleDataError extends NotNowError {
}
/** PRICE_UNAVAILABLE: the payment token has no price now; credits go on. */
export class NoPriceError extends NotNowError {
}
/** PAYMENT_PENDING: it is not known yet whether a payment arrives: do not pay again. */
export class OutcomeUnknownError extends NotNowError {
}
/** PAYMENT_UNAVAILABLE: the service can take no payment now; credits go on. */
export class NoPaymentsError extends NotNowError {
}
/** No answer came; a credit may have gone where `mayBeCharged`. */
export class UnreachableError extends ClientError {
    mayBeCharged;
    constructor(message, options) {
        super(message, options);
        this.mayBeCharged = options.mayBeCharged;
    }
}
/** An answer came that is not what the service documents. */
export class UnreadableError extends ClientError {
}
/** The call may cost more than the budget allows; nothing was sent or signed. */
export class OverBudgetError extends ClientError {
}
/** The demand is not one that is paid: another asset, another payee. Nothing was signed. */
export class WillNotPayError extends ClientError {
}
/** A payment was sent and its outcome is unknown: the same call with `key` redeems it. */
export class PendingError extends ClientError {
    key;
    constructor(key) {
        super("the payment is still pending; its key redeems it");
        this.key = key;
    }
}
const BY_STATUS = new Map([
    [401, CredentialRefusedError],
    [402, UnpaidError],
    [403, CredentialRefusedError],
    [404, NothingThereError],
    [408, NotNowError],
    [409, ConflictError],
    [425, NotNowError],
    [429, TooManyRequestsError],
]);
const BY_CODE = new Map([
    ["INVALID_TOKEN_ADDRESS", InvalidTokenAddressError],
    ["INVALID_BUNDLE", InvalidBundleError],
    ["INVALID_PAYMENT", InvalidPaymentError],
    ["MISSING_TOKEN", MissingCredentialError],
    ["INVALID_TOKEN", UnknownCredentialError],
    ["INSUFFICIENT_SCOPE", MissingScopeError],
    ["PAYMENT_REQUIRED", PaymentRequiredError],
    ["INSUFFICIENT_CREDITS", NoCreditsError],
    ["KEY_CAP_REACHED", KeyCapError],
    ["PAYMENT_FAILED", PaymentRefusedError],
    ["TOKEN_NOT_FOUND", NotTrackedError],
    ["INSUFFICIENT_DATA", TooLittleDataError],
    ["PAYMENT_ALREADY_USED", PaymentUsedError],
    ["DATA_STALE", StaleDataError],
    ["PRICE_UNAVAILABLE", NoPriceError],
    ["PAYMENT_PENDING", OutcomeUnknownError],
    ["PAYMENT_UNAVAILABLE", NoPaymentsError],
]);
/** Return the exception of `refusal`: that of its code; of its status if the code is new. */
export function refused(refusal) {
    const group = ofStatus(refusal.status);
    const named = BY_CODE.get(refusal.code);
    const kind = named !== undefined && named.prototype instanceof group ? named : group;
    return new kind(refusal);
}
function ofStatus(status) {
    return BY_STATUS.get(status) ?? (status >= 500 ? NotNowError : WrongCallError);
}
