/** How long to leave a service alone: what its answers say, and what we choose where they do not. */
const BACKOFF_MS = 500;
const BACKOFF_MS_MAX = 8_000;
const ROOM = /"([^"]{1,64})"\s*;\s*r=(\d{1,9})\s*;\s*t=(\d{1,6})/;
/** Return what `Retry-After` asks for: seconds, or the time until a date; null without it. */
export function retryAfterMs(headers, nowMs) {
    const text = headers.get("Retry-After") ?? "";
    if (/^\d{1,9}$/.test(text))
        return Number(text) * 1_000;
    const until = Date.parse(text);
    return Number.isNaN(until) ? null : Math.max(until - nowMs, 0);
}
/** Return how long to wait before `repetition`, from 0: many that failed together come apart. */
export function backoffMs(repetition) {
    return (Math.min(BACKOFF_MS * 2 ** repetition, BACKOFF_MS_MAX) * (1 + Math.random())) / 2;
}
/** When a limit has room again, by `RateLimit`. */
export class Pacing {
    #limits = new Map();
    #freeAtMs = new Map();
    /** Remember what an answer of the endpoint `name` says of its limit. */
    hear(name, headers, nowMs) {
        const said = ROOM.exec(headers.get("RateLimit") ?? "");
        if (said === null)
            return;
        const [, limit = "", remaining, resetS] = said;
        this.#limits.set(name, limit);
        this.#freeAtMs.set(limit, nowMs + (Number(remaining) > 0 ? 0 : Number(resetS) * 1_000));
    }
    /** Return how long to wait before a request to the endpoint `name`. */
    waitMs(name, nowMs) {
        const limit = this.#limits.get(name);
        return limit === undefined ? 0 : Math.max((this.#freeAtMs.get(limit) ?? 0) - nowMs, 0);
    }
}
