/** Why a call failed. `code` is the service's own word; docs/api.md says what to do for each. */
/** Base of all that a client throws. */
export declare class ClientError extends Error {
    name: string;
}
/** What a refusal says. */
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
/** Return the exception that tells `refusal`. */
export declare function refused(refusal: Refusal): RefusedError;
