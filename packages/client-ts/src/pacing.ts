/** The wait before the next request: named by the service, or computed by the client. */

const BACKOFF_MS = 500;
const BACKOFF_MS_MAX = 8_000;
const ROOM = /"([^"]{1,64})"\s*;\s*r=(\d{1,9})\s*;\s*t=(\d{1,6})/;

/** Return the milliseconds in `Retry-After`, or until the date in it; null if it has neither. */
export function retryAfterMs(headers: Headers, nowMs: number): number | null {
  const text = headers.get("Retry-After") ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000;
  const until = Date.parse(text);
  return Number.isNaN(until) ? null : Math.max(until - nowMs, 0);
}

/**
 * Return the milliseconds to wait before the retry `repetition`, counted from 0. They are random,
 * so that clients whose requests failed at the same time do not retry at the same time.
 */
export function backoffMs(repetition: number): number {
  return (Math.min(BACKOFF_MS * 2 ** repetition, BACKOFF_MS_MAX) * (1 + Math.random())) / 2;
}

/** The times at which rate limits allow a request again, from the `RateLimit` headers. */
export class Pacing {
  readonly #limits = new Map<string, string>();
  readonly #freeAtMs = new Map<string, number>();

  /** Store the rate limit, if any, in the headers of an answer of the endpoint `name`. */
  hear(name: string, headers: Headers, nowMs: number): void {
    const said = ROOM.exec(headers.get("RateLimit") ?? "");
    if (said === null) return;
    const [, limit = "", remaining, resetS] = said;
    this.#limits.set(name, limit);
    this.#freeAtMs.set(limit, nowMs + (Number(remaining) > 0 ? 0 : Number(resetS) * 1_000));
  }

  /** Return the milliseconds to wait before a request to the endpoint `name`. */
  waitMs(name: string, nowMs: number): number {
    const limit = this.#limits.get(name);
    return limit === undefined ? 0 : Math.max((this.#freeAtMs.get(limit) ?? 0) - nowMs, 0);
  }
}
