/** The steps of a call until it is answered: requests, waits and the decision to give up. */

import { CreditBudget } from "./budget.ts";
import type { Answer, Call } from "./call.ts";
import {
  ClientError,
  NotNowError,
  OverBudgetError,
  PendingError,
  RefusedError,
  TooManyRequestsError,
  UnreachableError,
  UnreadableError,
  WillNotPayError,
  refused,
} from "./errors.ts";
import { Pacing, backoffMs, retryAfterMs } from "./pacing.ts";
import { type Payer, receiptOf } from "./payment.ts";
import { WalletSignIn, challengeOf } from "./signIn.ts";

const TIMEOUT_MS = 30_000;
const PAID_TIMEOUT_MS = 90_000; // a seller may take a minute to answer a payment
const PATIENCE_MS = 30_000;
// After this time the chain has proven the outcome: a blockhash is valid for 150 blocks, which must
// become final; this assumes slots of less than about 0.9 s. If slots are slower, the wait ends
// earlier, with a PendingError; its key continues the payment.
const PAYMENT_PATIENCE_MS = 180_000;
const PAYMENT_RETRY_MS = 2_000;
const ANSWER_CHARACTERS_MAX = 4 * 1024 * 1024;
const CREDENTIAL = /^(svc_credit_[0-9a-f]{64}|svc_live_[0-9a-f]{80})$/;

export interface ClientOptions {
  /** A credit token or an API key: pays for reads. */
  credential?: string;
  /** Pays for purchases, and for reads if there is no credential. */
  payer?: Payer;
  /**
   * Spends the credits that its wallet has bought, if there is no credential; if they do not
   * suffice, `payer` pays.
   */
  signIn?: WalletSignIn;
  budget?: CreditBudget;
  /** The most milliseconds between the beginning of a call and its last retry. */
  patienceMs?: number;
  /** The time limit of one answer, in milliseconds; at least 90 s if a wallet pays for the call. */
  timeoutMs?: number;
  /** The largest number of retries of a call; by default, only `patienceMs` limits them. */
  retriesMax?: number;
  /** The WebSocket of the browser, of Node 22 or of a package, for streams. */
  webSocket?: typeof WebSocket;
  /** The function that sends requests; for tests and proxies. */
  fetch?: typeof fetch;
}

/** Sends calls to one service. */
export class Transport {
  readonly budget: CreditBudget;
  readonly #origin: URL;
  readonly #credential: string | undefined;
  readonly #payer: Payer | undefined;
  readonly #signIn: WalletSignIn | undefined;
  readonly patienceMs: number;
  readonly webSocket: typeof WebSocket | undefined;
  readonly #timeoutMs: number;
  readonly #retriesMax: number;
  readonly #fetch: typeof fetch;
  readonly #pacing = new Pacing();

  constructor(url: string, options: ClientOptions) {
    this.#origin = new URL(url);
    if (options.credential !== undefined && !CREDENTIAL.test(options.credential)) {
      throw new TypeError("expected a credit token, svc_credit_ and 64 hex digits, or an API key");
    }
    this.#credential = options.credential;
    this.#payer = options.payer;
    this.#signIn = options.signIn;
    this.budget = options.budget ?? new CreditBudget();
    this.patienceMs = options.patienceMs ?? PATIENCE_MS;
    this.webSocket = options.webSocket;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#retriesMax = options.retriesMax ?? Infinity;
    this.#fetch = options.fetch ?? fetch.bind(globalThis);
  }

  /**
   * Send `call`; all its requests have the same Idempotency-Key, so the budget counts it once. The
   * credits of the call are reserved until it ends.
   */
  async send<Data>(call: Call<Data>, key: string = crypto.randomUUID()): Promise<Answer<Data>> {
    const attempt = new Attempt(key, this.#payerOf(call), performance.now(), this.#signInOf(call));
    // The payment of an earlier call with this key: a second one could settle beside it.
    attempt.payment = (await attempt.payer?.unsettled(key)) ?? null;
    if (attempt.payment !== null) attempt.signIn = undefined;
    await sleep(within(this.#pacing.waitMs(call.name, performance.now()), this.patienceMs));
    const isByCredential = attempt.payer === undefined && this.#credential !== undefined;
    const credits = isByCredential || attempt.signIn !== undefined ? call.creditsMax : 0;
    this.budget.reserve(credits);
    let spent = 0; // as far as the requests may have been charged
    try {
      for (;;) {
        try {
          const answer = await this.#once(call, attempt);
          attempt.payer?.settle(key);
          const cost = attempt.payment === null ? (call.creditsOf?.(answer.data) ?? call.creditsMax) : 0;
          spent = Math.min(cost, credits);
          return answer;
        } catch (failure) {
          if (!isUncharged(failure)) spent = credits;
          // An earlier request of the call may have been charged, even if this one was not sent.
          if (failure instanceof UnreachableError) failure.mayBeCharged = spent > 0;
          if (!(failure instanceof ClientError)) throw failure;
          await sleep(attempt.waitMs(failure, this.patienceMs, this.#retriesMax));
        }
      }
    } finally {
      this.budget.giveBack(credits - spent);
    }
  }

  /** Return the successful response to `call`, with its body unread. Throws ClientError. */
  async open<Data>(
    call: Call<Data>,
    attempt: Attempt,
    options: { headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<Response> {
    let response = await this.#request(call, attempt, options);
    const challenge = attempt.signIn === undefined ? null : await challengeOf(response);
    if (challenge !== null && attempt.signIn !== undefined) {
      attempt.signature = await attempt.signIn.sign(challenge, new URL(call.path, this.#origin));
      response = await this.#request(call, attempt, options);
    }
    const demand = response.headers.get("PAYMENT-REQUIRED");
    if (response.status === 402 && demand !== null && attempt.payer !== undefined && attempt.payment === null) {
      attempt.payment = await attempt.payer.pay(demand, attempt.key);
      attempt.signIn = undefined; // the credits of the wallet do not suffice
      attempt.signature = null;
      return await this.open(call, attempt, options);
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }

  /** Return the WebSocket URL of `call`, and the credential for its first message, if any. */
  socketOf<Data>(call: Call<Data>): { url: URL; token: { token?: string } } {
    const url = this.#urlOf(call);
    url.protocol = url.protocol.replace("http", "ws");
    return { url, token: this.#credential === undefined ? {} : { token: this.#credential } };
  }

  #urlOf<Data>(call: Call<Data>): URL {
    const url = new URL(call.path, this.#origin);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, queried(value));
    }
    return url;
  }

  /** Return the sign-in for `call`, if it costs credits and the client has no credential. */
  #signInOf<Data>(call: Call<Data>): WalletSignIn | undefined {
    return call.creditsMax > 0 && this.#credential === undefined ? this.#signIn : undefined;
  }

  /** Return the payer of `call`, if a wallet pays for it. */
  #payerOf<Data>(call: Call<Data>): Payer | undefined {
    const byWallet = call.isPurchase === true || (call.creditsMax > 0 && this.#credential === undefined);
    return byWallet ? this.#payer : undefined;
  }

  async #once<Data>(call: Call<Data>, attempt: Attempt): Promise<Answer<Data>> {
    const response = await this.open(call, attempt);
    return {
      data: await dataOf<Data>(call, response),
      creditsLeft: integer(response.headers.get("X-Credits-Remaining")),
      dataSlot: integer(response.headers.get("X-Data-Slot")),
      dataAgeMs: integer(response.headers.get("X-Data-Age-Ms")),
      dataStatus: response.headers.get("X-Data-Status"),
      requestId: response.headers.get("X-Request-Id"),
      receipt: receiptOf(response.headers.get("PAYMENT-RESPONSE")),
      status: response.status,
      headers: response.headers,
    };
  }

  async #request<Data>(
    call: Call<Data>,
    attempt: Attempt,
    options: { headers?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Response> {
    const url = this.#urlOf(call);
    const headers = new Headers({ Accept: "application/json", ...options.headers });
    const isPaid = call.creditsMax > 0 || call.isPurchase === true;
    if ((isPaid || call.takesKey === true) && attempt.key !== "") headers.set("Idempotency-Key", attempt.key);
    if (this.#credential !== undefined) headers.set("Authorization", `Bearer ${this.#credential}`);
    if (attempt.signature !== null) headers.set(WalletSignIn.header, attempt.signature);
    if (attempt.payment !== null) headers.set("PAYMENT-SIGNATURE", attempt.payment);
    if (call.body !== undefined) headers.set("Content-Type", "application/json");
    const isByWallet = attempt.payer !== undefined;
    const timeoutMs = isByWallet ? Math.max(this.#timeoutMs, PAID_TIMEOUT_MS) : this.#timeoutMs;
    try {
      const response = await this.#fetch(url, {
        method: call.method,
        headers,
        body: call.body === undefined ? null : JSON.stringify(call.body),
        redirect: "manual", // a redirect is a refusal
        signal: options.signal ?? AbortSignal.timeout(timeoutMs),
      });
      this.#pacing.hear(call.name, response.headers, performance.now());
      return response;
    } catch (cause) {
      throw new UnreachableError(`${call.method} ${url.host}: ${told(cause)}`, {
        cause,
        mayBeCharged: call.creditsMax > 0 && !wasNotSent(cause),
      });
    }
  }
}

/** The state that all requests of one call share: its key, payment, signature and retries. */
export class Attempt {
  readonly key: string;
  readonly payer: Payer | undefined;
  payment: string | null = null;
  /** The SIGN-IN-WITH-X header, the same for all requests: it spends credits only once. */
  signature: string | null = null;
  signIn: WalletSignIn | undefined;
  #repetitions = 0;
  /** When the time for retries began. */
  sinceMs: number;

  constructor(key: string, payer: Payer | undefined, nowMs: number, signIn?: WalletSignIn) {
    this.key = key;
    this.payer = payer;
    this.signIn = signIn;
    this.sinceMs = nowMs;
  }

  /** Return the milliseconds to wait before a retry; without a retry, throw the error. */
  waitMs(failure: ClientError, patienceMs: number, retriesMax = Infinity): number {
    const isHeld = this.payment !== null;
    if (!mayChange(failure, isHeld)) {
      if (failure instanceof RefusedError && isHeld) failure.key = this.key;
      throw failure;
    }
    if (!isHeld && this.#repetitions >= retriesMax) throw failure;
    const asked = failure instanceof RefusedError ? failure.retryAfterMs : null;
    const backoff = backoffMs(this.#repetitions++);
    const wait = Math.max(asked ?? 0, isHeld && asked === null ? PAYMENT_RETRY_MS : backoff);
    const until = this.sinceMs + (isHeld ? PAYMENT_PATIENCE_MS : patienceMs);
    if (performance.now() + wait > until) throw isHeld ? new PendingError(this.key) : failure;
    return wait;
  }
}

/** Return whether a request that failed with `failure` cost no credits. */
function isUncharged(failure: unknown): boolean {
  return (
    failure instanceof RefusedError ||
    failure instanceof WillNotPayError ||
    failure instanceof OverBudgetError ||
    (failure instanceof UnreachableError && !failure.mayBeCharged)
  );
}

/** Codes of Node for a connection that could not be made; browsers do not name the reason. */
const NOT_CONNECTED = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** Return whether `fetch` failed with `cause` before it sent the request; false if unknown. */
function wasNotSent(cause: unknown): boolean {
  const reason: unknown = cause instanceof Error ? cause.cause : undefined;
  return reason instanceof Error && "code" in reason && NOT_CONNECTED.has(String(reason.code));
}

function mayChange(failure: ClientError, isHeld: boolean): boolean {
  if (failure instanceof UnreadableError) return isHeld;
  return (
    failure instanceof UnreachableError ||
    failure instanceof NotNowError ||
    failure instanceof TooManyRequestsError
  );
}

async function dataOf<Data>(call: Call<Data>, response: Response): Promise<Data> {
  try {
    const text = await response.text();
    if (text.length <= ANSWER_CHARACTERS_MAX) {
      const body = JSON.parse(text) as { data?: Data };
      if (call.isEnveloped === false) return body as Data;
      if (body.data !== undefined) return body.data;
    }
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) {
      throw new UnreachableError(`${call.method} ${call.path}: ${told(cause)}`, {
        cause,
        mayBeCharged: call.creditsMax > 0,
      });
    }
  }
  throw new UnreadableError(`${response.status}: expected an answer to ${call.path} as documented`);
}

/** Return the error for the refusal in `response`. */
async function refusal(response: Response): Promise<RefusedError> {
  let error: { code?: unknown; message?: unknown } = {};
  try {
    const body = (await response.json()) as { error?: typeof error; messages?: { message?: unknown }[] };
    // The refusal of a key exchange has its code in a header and its messages in a list.
    error = body.error ?? { code: response.headers.get("X-Error-Code"), message: body.messages?.[0]?.message };
  } catch {
    // the body is not JSON, for example a proxy's page
  }
  return refused({
    status: response.status,
    code: typeof error.code === "string" ? error.code : "UNKNOWN",
    message: typeof error.message === "string" ? error.message : "the answer cannot be read",
    requestId: response.headers.get("X-Request-Id"),
    retryAfterMs: retryAfterMs(response.headers, Date.now()),
  });
}

/** Return `value` as the text of a query; a Date becomes Unix seconds. */
function queried(value: string | number | boolean | Date | readonly string[]): string {
  return String(seconds(value));
}

/** Return `value`, in Unix seconds if it is a Date. */
export function seconds<Value>(value: Value | Date): Value | number {
  return value instanceof Date ? Math.floor(value.getTime() / 1000) : value;
}

export function sleep(ms: number): Promise<void> {
  return ms > 0 ? new Promise((resolve) => setTimeout(resolve, ms)) : Promise.resolve();
}

function within(ms: number, mostMs: number): number {
  return ms <= mostMs ? ms : 0;
}

function integer(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function told(cause: unknown): string {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  return inner instanceof Error ? `${inner.name}: ${inner.message}` : String(inner);
}
