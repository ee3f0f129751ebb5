/** Types that several files use, from the OpenAPI document of the service: `npm run types`. */

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

/** The type of an answer without an envelope. */
export type BareOf<Operation> = Operation extends { responses: infer Responses }
  ? Body<Responses, 200> | Body<Responses, 201>
  : never;

export type BodyOf<Operation> = Operation extends { requestBody?: infer Request }
  ? NonNullable<Request> extends { content: { "application/json": infer Sent } }
    ? Sent
    : never
  : never;

/** The body of a request: all fields except `Needed` are optional. */
export type Sent<Body, Needed extends PropertyKey> = Body extends unknown
  ? Pick<Body, Extract<keyof Body, Needed>> & Partial<Omit<Body, Needed>>
  : never;

export type Report = DataOf<paths["/v1/token/{tokenAddress}"]["get"]>;
/**
 * `candles`: "closed" for indicators without open candles. `partial`: a report from the first
 * priced swap on, with null for numbers that need more candles. `timeframes`: further timeframes
 * with indicators.
 */
export type ReportOptions = NonNullable<paths["/v1/trial/{tokenAddress}"]["get"]["parameters"]["query"]>;
/** The whole report of a mint as of a slot, from a stream. */
export interface LiveReport {
  slot: number;
  report: Report;
  /** The number of credits left on the credential at the start of the current minute. */
  creditsLeft: number | null;
}
