/** Fields of a query; those without a value are not sent. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;
/** One request as data. */
export interface Call<Data> {
    /** Of the endpoint; calls of one name share a rate limit. */
    readonly name: string;
    readonly method: "GET" | "POST";
    readonly path: string;
    readonly query?: Query;
    readonly body?: unknown;
    /** What an answer may cost, in credits; 0 where it is free. */
    readonly creditsMax: number;
    /** What an answer has cost; by default `creditsMax`. */
    readonly creditsOf?: (data: Data) => number;
    /** It is paid for by a wallet, whatever credential there is. */
    readonly isPurchase?: boolean;
}
/** What a call brought. */
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
}
