/** Types that several files use, from the service's OpenAPI document: `npm run types`. */

import type { paths } from "./openapi.ts";

type Body<Responses, Status extends number> = Responses extends {
  [S in Status]: { content: { "application/json": infer Found } };
}
  ? Found
  : never;

export type DataOf<Operation> = Operation extends { responses: infer Responses }
  ? (Body<Responses, 200> | Body<Responses, 201>) extends { data: infer Data }
    ? Data
    : never
  : never;

/** Of an answer without an envelope. */
export type BareOf<Operation> = Operation extends { responses: infer Responses }
  ? Body<Responses, 200> | Body<Responses, 201>
  : never;

export type BodyOf<Operation> = Operation extends { requestBody?: infer Request }
  ? NonNullable<Request> extends { content: { "application/json": infer Sent } }
    ? Sent
    : never
  : never;

/** The body of a request: all fields but those `Needed` are optional. */
export type Sent<Body, Needed extends PropertyKey> = Body extends unknown
  ? Pick<Body, Extract<keyof Body, Needed>> & Partial<Omit<Body, Needed>>
  : never;

export type Report = DataOf<paths["/v1/token/{tokenAddress}"]["get"]>;
/** `candles`: "closed" for indicators without the candle that is still open; `partial`: from the first priced swap on; `timeframes`: indicators of these, too. */
export type ReportOptions = NonNullable<paths["/v1/trial/{tokenAddress}"]["get"]["parameters"]["query"]>;
/** The whole report of a mint as of a slot, as a stream sends it. */
export interface LiveReport {
  slot: number;
  report: Report;
  /** On the credential when the minute began that is under way. */
  creditsLeft: number | null;
}
