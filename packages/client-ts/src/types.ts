/** The shapes of answers, as the service's OpenAPI document says them: `npm run types`. */

import type { paths } from "./openapi.ts";

type Body<Responses, Status extends number> = Responses extends {
  [S in Status]: { content: { "application/json": infer Found } };
}
  ? Found
  : never;
type DataOf<Operation> = Operation extends { responses: infer Responses }
  ? (Body<Responses, 200> | Body<Responses, 201>) extends { data: infer Data }
    ? Data
    : never
  : never;

export type Report = DataOf<paths["/v1/token/{tokenAddress}"]["get"]>;
export type BatchReports = DataOf<paths["/v1/tokens/batch"]["post"]>;
export type CandlesPage = DataOf<paths["/v1/token/{tokenAddress}/candles"]["get"]>;
export type CandleLine = CandlesPage["candles"][number];
/** Moments as Unix seconds or a Date. */
type Within<Query> = Omit<Query, "tf" | "cursor" | "from" | "to"> & { from?: number | Date; to?: number | Date };
export type CandlesQuery = Within<
  NonNullable<paths["/v1/token/{tokenAddress}/candles"]["get"]["parameters"]["query"]>
>;
/** `candles`: "closed" for indicators without the candle that is still open; `partial`: from the first priced swap on; `timeframes`: indicators of these, too. */
export type ReportOptions = NonNullable<paths["/v1/trial/{tokenAddress}"]["get"]["parameters"]["query"]>;
/** The same, and `at`: the report as it was, Unix seconds or "slot:312345678". */
export type TokenOptions = NonNullable<paths["/v1/token/{tokenAddress}"]["get"]["parameters"]["query"]>;
export type Timeframe = NonNullable<
  NonNullable<paths["/v1/token/{tokenAddress}/candles"]["get"]["parameters"]["query"]>["tf"]
>;
type IndicatorsRead = paths["/v1/token/{tokenAddress}/indicators"]["get"];
export type IndicatorsPage = DataOf<IndicatorsRead>;
export type IndicatorLine = IndicatorsPage["points"][number];
export type IndicatorsQuery = Within<NonNullable<IndicatorsRead["parameters"]["query"]>>;
export type ReportTimeframe = NonNullable<IndicatorsRead["parameters"]["query"]>["tf"];
export type SwapsPage = DataOf<paths["/v1/token/{tokenAddress}/swaps"]["get"]>;
export type SwapRecord = SwapsPage["swaps"][number];
export type TokensPage = DataOf<paths["/v1/tokens"]["get"]>;
export type TokenLine = TokensPage["tokens"][number];
export type TokensQuery = Omit<NonNullable<paths["/v1/tokens"]["get"]["parameters"]["query"]>, "cursor">;
export type PastPrices = DataOf<paths["/v1/prices"]["post"]>;
export type TokenBacktest = DataOf<paths["/v1/token/{tokenAddress}/backtest"]["get"]>;
export type TokensBacktest = DataOf<paths["/v1/backtest"]["post"]>;
export type BacktestQuery = Omit<
  NonNullable<paths["/v1/token/{tokenAddress}/backtest"]["get"]["parameters"]["query"]>,
  "where"
>;
export type TokenPools = DataOf<paths["/v1/token/{tokenAddress}/pools"]["get"]>;
export type TokenHolders = DataOf<paths["/v1/token/{tokenAddress}/holders"]["get"]>;
export type TokenTraders = DataOf<paths["/v1/token/{tokenAddress}/traders"]["get"]>;
export type ScreenPage = DataOf<paths["/v1/screen"]["get"]>;
export type ScreenedToken = ScreenPage["tokens"][number];
export type ScreenQuery = Omit<
  NonNullable<paths["/v1/screen"]["get"]["parameters"]["query"]>,
  "cursor" | "where"
>;
export type TokenMetadata = DataOf<paths["/v1/token/{tokenAddress}/metadata"]["get"]>;
/** The whole report of a mint as of a slot, as a stream sends it. */
export interface LiveReport {
  slot: number;
  report: Report;
  /** On the credential when the minute began that is under way. */
  creditsLeft: number | null;
}
export type BundleList = DataOf<paths["/v1/credits/bundles"]["get"]>;
export type CreditBalance = DataOf<paths["/v1/credits/balance"]["get"]>;
export type CreditHistory = DataOf<paths["/v1/credits/history"]["get"]>;
export type CreditPurchase = DataOf<paths["/v1/credits/purchase"]["post"]>;

/** Of an answer without an envelope. */
type BareOf<Operation> = Operation extends { responses: infer Responses }
  ? Body<Responses, 200> | Body<Responses, 201>
  : never;
type BodyOf<Operation> = Operation extends { requestBody?: infer Request }
  ? NonNullable<Request> extends { content: { "application/json": infer Sent } }
    ? Sent
    : never
  : never;

/** The body of a request: all fields but those `Needed` are optional. */
type Sent<Body, Needed extends PropertyKey> = Body extends unknown
  ? Pick<Body, Extract<keyof Body, Needed>> & Partial<Omit<Body, Needed>>
  : never;

export type Signup = Sent<BodyOf<paths["/api/public/beta-signup"]["post"]>, "email" | "userType" | "motivation">;
export type SignedUp = BareOf<paths["/api/public/beta-signup"]["post"]>;
export type ConfirmedEmail = BareOf<paths["/api/auth/confirm-email"]["post"]>;
export type ApplicationStanding = BareOf<paths["/api/auth/application-status"]["post"]>;
export type ExchangedKey = BareOf<paths["/api/auth/exchange-secret"]["post"]>;
export type KeyOwner = DataOf<paths["/v1/me"]["get"]>;
export type Scope = KeyOwner["scopes"][number];
export type Overlap = NonNullable<BodyOf<paths["/v1/me/key/rotate"]["post"]>["overlap"]>;
export type RotatedKey = DataOf<paths["/v1/me/key/rotate"]["post"]>;
export type RevokedKey = DataOf<paths["/v1/me/key"]["delete"]>;
export type ScopesAsked = DataOf<paths["/v1/me/key/scopes"]["post"]>;
export type AccountHoldings = DataOf<paths["/v1/account"]["get"]>;
export type CappedKey = DataOf<paths["/v1/account/keys/{keyId}"]["patch"]>;
export type CreditDeposit = DataOf<paths["/v1/account/credits/deposit"]["post"]>;
export type CreditWithdrawal = DataOf<paths["/v1/account/credits/withdraw"]["post"]>;
export type RotatedCredits = DataOf<paths["/v1/credits/rotate"]["post"]>;
export type WalletChallenge = DataOf<paths["/v1/credits/rotate/challenge"]["post"]>;
export type LinkedWallets = DataOf<paths["/v1/account/wallets"]["get"]>;
export type PaymentsPage = DataOf<paths["/v1/account/payments"]["get"]>;
export type WalletPayment = PaymentsPage["payments"][number];
export type WatchlistLines = DataOf<paths["/v1/groups"]["get"]>;
export type FilledWatchlist = DataOf<paths["/v1/groups/{groupId}"]["get"]>;
export type NewSignal = Sent<BodyOf<paths["/v1/signals"]["post"]>, "name" | "mint" | "field" | "where" | "kind">;
export type MadeSignal = DataOf<paths["/v1/signals"]["post"]>;
export type SignalRule = DataOf<paths["/v1/signals/{signalId}"]["get"]>;
export type SignalRules = DataOf<paths["/v1/signals"]["get"]>;
export type SignalChanges = Partial<BodyOf<paths["/v1/signals/{signalId}"]["patch"]>>;
export type SignalEventsPage = DataOf<paths["/v1/signals/{signalId}/events"]["get"]>;
export type SignalEvent = SignalEventsPage["events"][number];
