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
/** Return the exception that tells `refusal`. */
export function refused(refusal) {
    const kind = BY_STATUS.get(refusal.status) ?? (refusal.status >= 500 ? NotNowError : WrongCallError);
    return new kind(refusal);
}
