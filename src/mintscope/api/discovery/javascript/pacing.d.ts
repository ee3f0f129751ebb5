/** How long to leave a service alone: what its answers say, and what we choose where they do not. */
/** Return what `Retry-After` asks for: seconds, or the time until a date; null without it. */
export declare function retryAfterMs(headers: Headers, nowMs: number): number | null;
/** Return how long to wait before `repetition`, from 0: many that failed together come apart. */
export declare function backoffMs(repetition: number): number;
/** When a limit has room again, by `RateLimit`. */
export declare class Pacing {
    #private;
    /** Remember what an answer of the endpoint `name` says of its limit. */
    hear(name: string, headers: Headers, nowMs: number): void;
    /** Return how long to wait before a request to the endpoint `name`. */
    waitMs(name: string, nowMs: number): number;
}
