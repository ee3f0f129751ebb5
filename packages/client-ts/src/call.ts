/** The fields of a query; a Date is sent in Unix seconds, an undefined value is not sent. */
export type Query = Readonly<Record<string, string | number | boolean | Date | readonly string[] | undefined>>;

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** One request, and how to read its answer. */
export interface Call<Data> {
  /** The name of the endpoint; calls with the same name share a rate limit. */
  readonly name: string;
  readonly method: Method;
  readonly path: string;
  readonly query?: Query;
  readonly body?: unknown;
  /** The most credits that the answer can cost; 0 if it is free. */
  readonly creditsMax: number;
  /** Returns the cost of an answer in credits; by default, an answer costs `creditsMax`. */
  readonly creditsOf?: (data: Data) => number;
  /** Whether a wallet pays for the call even if the client has a credential. */
  readonly isPurchase?: boolean;
  /** Whether the service repeats a lost answer for its Idempotency-Key even if the call is free. */
  readonly takesKey?: boolean;
  /** False: the result is the whole body of the answer, not its `data`. */
  readonly isEnveloped?: boolean;
}

/** The answer to a call; null is an unknown value. */
export interface Answer<Data> {
  readonly data: Data;
  /** The number of credits left on the credential, if it paid. */
  readonly creditsLeft: number | null;
  /** The last Solana slot in the data. */
  readonly dataSlot: number | null;
  readonly dataAgeMs: number | null;
  /**
   * "live"; "idle": the data is live, but the token does not trade; "degraded": the data is old.
   */
  readonly dataStatus: string | null;
  readonly requestId: string | null;
  /** The signed receipt of the payment for this call, a JWS; null: no such payment. */
  readonly receipt: string | null;
  /** The HTTP status. */
  readonly status: number;
  readonly headers: Headers;
}
