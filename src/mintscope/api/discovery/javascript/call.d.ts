/** Fields of a query; those without a value are not sent, a Date is in Unix seconds. */
export type Query = Readonly<Record<string, string | number | boolean | Date | readonly string[] | undefined>>;
export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
/** One request as data. */
export interface Call<Data> {
    /** Of the endpoint; calls of one name share a rate limit. */
    readonly name: string;
    readonly method: Method;
    readonly path: string;
    readonly query?: Query;
    readonly body?: unknown;
    /** The most that an answer costs, in credits; 0 if it is free. */
    readonly creditsMax: number;
    /** The cost of an answer; by default `creditsMax`. */
    readonly creditsOf?: (data: Data) => number;
    /** It is paid for by a wallet, whatever credential there is. */
    readonly isPurchase?: boolean;
    /** A lost answer is returned again for its Idempotency-Key. */
    readonly takesKey?: boolean;
    /** False: the answer is the whole body, not `data` of it. */
    readonly isEnveloped?: boolean;
}
/** The result of a call. */
export interface Answer<Data> {
    readonly data: Data;
    /** On the credential, if it paid. */
    readonly creditsLeft: number | null;
    /** The last Solana slot that the data knows of. */
    readonly dataSlot: number | null;
    readonly dataAgeMs: number | null;
    /** "live"; "idle": the data is live, and the token does not trade; "degraded": the data is old. */
    readonly dataStatus: string | null;
    readonly requestId: string | null;
    /** The signed receipt of its payment, a JWS; null if it was not paid for by itself. */
    readonly receipt: string | null;
    /** Of HTTP. */
    readonly status: number;
    readonly headers: Headers;
}
