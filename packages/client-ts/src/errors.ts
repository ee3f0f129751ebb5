/**
 * The errors of failed calls. `code` comes from the service; docs/api.md has the remedy for each.
 */

/** The base of all errors that a client throws. */
export class ClientError extends Error {
  override name = this.constructor.name;
}

/** The details of a refusal. */
export interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly requestId: string | null;
  /** The time to wait before a retry, in milliseconds; null if the service names none. */
  readonly retryAfterMs: number | null;
}

/** The service refused the call, or ended a stream; a refused call costs no credits. */
export class RefusedError extends ClientError {
  readonly status: number;
  readonly code: string;
  readonly requestId: string | null;
  readonly retryAfterMs: number | null;
  /**
   * The key of a sent payment that may still land: repeat the call with this key to redeem the
   * payment. A new payment needs a call without this key. Null: there is no such payment.
   */
  key: string | null = null;

  constructor(refusal: Refusal) {
    super(`${refusal.status} ${refusal.code}: ${refusal.message}`);
    this.status = refusal.status;
    this.code = refusal.code;
    this.requestId = refusal.requestId;
    this.retryAfterMs = refusal.retryAfterMs;
  }
}

/** 400, other 4xx, and redirects: correct the call. */
export class WrongCallError extends RefusedError {}
/** 401, 403: send another credential. */
export class CredentialRefusedError extends RefusedError {}
/** 402: buy credits, or pay. */
export class UnpaidError extends RefusedError {}
/** 404: the thing that the call names is unknown, or has too little data so far. */
export class NothingThereError extends RefusedError {}
/** 409: the call conflicts with the result of an earlier call. */
export class ConflictError extends RefusedError {}
/** 429: wait `retryAfterMs`. */
export class TooManyRequestsError extends RefusedError {}
/** 5xx, 408, 425: try again later. */
export class NotNowError extends RefusedError {}

/** INVALID_TOKEN_ADDRESS: the mint is not base58 of 32 bytes. */
export class InvalidTokenAddressError extends WrongCallError {}
/** INVALID_BUNDLE: no bundle of this size is for sale. */
export class InvalidBundleError extends WrongCallError {}
/** INVALID_PAYMENT: the payment cannot be read, or credits are the only way to pay. */
export class InvalidPaymentError extends WrongCallError {}
/** MISSING_TOKEN: this call needs a credential. */
export class MissingCredentialError extends CredentialRefusedError {}
/** INVALID_TOKEN: the credential was never issued, is no longer valid, or is of another kind. */
export class UnknownCredentialError extends CredentialRefusedError {}
/** INSUFFICIENT_SCOPE: the API key is valid, but lacks the scope for this call. */
export class MissingScopeError extends CredentialRefusedError {}
/** PAYMENT_REQUIRED: no payment and no credential that can pay, or a refused sign-in. */
export class PaymentRequiredError extends UnpaidError {}
/** INSUFFICIENT_CREDITS: the credential is valid, but has too few credits. */
export class NoCreditsError extends UnpaidError {}
/** KEY_CAP_REACHED: the API key has reached its monthly cap. */
export class KeyCapError extends UnpaidError {}
/** PAYMENT_FAILED: the service refused the payment, or it failed on chain. */
export class PaymentRefusedError extends UnpaidError {}
/** TOKEN_NOT_FOUND: the service does not track this mint. */
export class NotTrackedError extends NothingThereError {}
/** INSUFFICIENT_DATA: the mint has too few trades yet. */
export class TooLittleDataError extends NothingThereError {}
/** PAYMENT_ALREADY_USED: the payment or its key belongs to an earlier call. */
export class PaymentUsedError extends ConflictError {}
/** DATA_STALE: the newest data is too old to be sold. */
export class StaleDataError extends NotNowError {}
/** PRICE_UNAVAILABLE: the payment token has no price now; paying with credits still works. */
export class NoPriceError extends NotNowError {}
/** PAYMENT_PENDING: a payment may have been sent; its outcome is not known: do not pay again. */
export class OutcomeUnknownError extends NotNowError {}
/** PAYMENT_UNAVAILABLE: the service cannot accept payments now; paying with credits still works. */
export class NoPaymentsError extends NotNowError {}

/** No complete answer arrived. If `mayBeCharged`, credits may have been spent on the call. */
export class UnreachableError extends ClientError {
  /** False if no request of the call was sent, or if the call costs no credits. */
  mayBeCharged: boolean;

  constructor(message: string, options: ErrorOptions & { mayBeCharged: boolean }) {
    super(message, options);
    this.mayBeCharged = options.mayBeCharged;
  }
}

/** The answer does not have the documented form; it may be a proxy's page. */
export class UnreadableError extends ClientError {}

/**
 * The budget or the pin does not allow the call, which was not paid for, or the next minute of a
 * stream.
 */
export class OverBudgetError extends ClientError {}

/**
 * The demand or challenge is invalid, or not for the pinned payee or called path, or the wallet did
 * not sign it: nothing was paid. If the wallet threw an error, `cause` is that error.
 */
export class WillNotPayError extends ClientError {}

/** Return the error of a call whose wallet threw `cause` instead of a signature. */
export function notSigned(cause: unknown): ClientError {
  return cause instanceof ClientError ? cause : new WillNotPayError("the wallet did not sign", { cause });
}

/** A payment may have been sent: repeat the call with `key` to redeem the payment. */
export class PendingError extends ClientError {
  readonly key: string;

  constructor(key: string) {
    super("the payment is still pending; its key redeems it");
    this.key = key;
  }
}

const BY_STATUS = new Map<number, typeof RefusedError>([
  [401, CredentialRefusedError],
  [402, UnpaidError],
  [403, CredentialRefusedError],
  [404, NothingThereError],
  [408, NotNowError],
  [409, ConflictError],
  [425, NotNowError],
  [429, TooManyRequestsError],
]);

const BY_CODE = new Map<string, typeof RefusedError>([
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

/** Return the error for the code of `refusal`, or for its status if the code is not known. */
export function refused(refusal: Refusal): RefusedError {
  const group = ofStatus(refusal.status);
  const named = BY_CODE.get(refusal.code);
  const kind = named !== undefined && named.prototype instanceof group ? named : group;
  return new kind(refusal);
}

function ofStatus(status: number): typeof RefusedError {
  return BY_STATUS.get(status) ?? (status >= 500 ? NotNowError : WrongCallError);
}
