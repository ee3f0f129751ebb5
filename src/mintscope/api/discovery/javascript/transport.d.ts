/** A call until it is answered: what is sent, how long is waited, when it is given up. */
import { CreditBudget } from "./budget.ts";
import type { Answer, Call } from "./call.ts";
import { ClientError } from "./errors.ts";
import { type Payer } from "./payment.ts";
import { WalletSignIn } from "./signIn.ts";
export interface ClientOptions {
    /** A credit token or an API key: pays for what is read. */
    credential?: string;
    /** Pays for purchases, and for what is read where there is no credential. */
    payer?: Payer;
    /** Spends credits that its wallet has bought, where there is no credential; then `payer` pays. */
    signIn?: WalletSignIn;
    budget?: CreditBudget;
    /** How long a call waits and tries again, in all, before it throws what went wrong. */
    patienceMs?: number;
    /** The most time for one answer; at least 90 s if a wallet pays for it. */
    timeoutMs?: number;
    /** The most retries of a call; by default as many as the patience allows. */
    retriesMax?: number;
    /** Streams come by WebSocket: that of the browser or of Node 22, or of a package. */
    webSocket?: typeof WebSocket;
    /** For tests and proxies. */
    fetch?: typeof fetch;
}
/** Sends calls to one service. */
export declare class Transport {
    #private;
    readonly budget: CreditBudget;
    readonly patienceMs: number;
    readonly webSocket: typeof WebSocket | undefined;
    constructor(url: string, options: ClientOptions);
    /** Send `call`; every request of it carries the same Idempotency-Key. */
    send<Data>(call: Call<Data>, key?: string): Promise<Answer<Data>>;
    /** Return the response of `call`, a success, with its body unread. Throws ClientError. */
    open<Data>(call: Call<Data>, attempt: Attempt, options?: {
        headers?: Record<string, string>;
        signal?: AbortSignal;
    }): Promise<Response>;
    /** Return the WebSocket of `call`, and the credential for its first message. */
    socketOf<Data>(call: Call<Data>): {
        url: URL;
        token: {
            token?: string;
        };
    };
}
/** Common state of the sendings of one call: a key, a payment, patience. */
export declare class Attempt {
    #private;
    readonly key: string;
    readonly payer: Payer | undefined;
    payment: string | null;
    /** SIGN-IN-WITH-X, the same for each sending: it takes credits once. */
    signature: string | null;
    signIn: WalletSignIn | undefined;
    constructor(key: string, payer: Payer | undefined, nowMs: number, signIn?: WalletSignIn);
    /** Return how long to wait before the next sending, or throw `failure`. */
    waitMs(failure: ClientError, patienceMs: number, retriesMax?: number): number;
}
export declare function sleep(ms: number): Promise<void>;
