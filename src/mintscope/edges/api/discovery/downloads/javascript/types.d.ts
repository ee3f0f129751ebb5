/** The shapes of answers, as the service's OpenAPI document says them: `npm run types`. */
import type { paths } from "./openapi.ts";
type Body<Responses, Status extends number> = Responses extends {
    [S in Status]: {
        content: {
            "application/json": infer Found;
        };
    };
} ? Found : never;
type DataOf<Operation> = Operation extends {
    responses: infer Responses;
} ? (Body<Responses, 200> | Body<Responses, 201>) extends {
    data: infer Data;
} ? Data : never : never;
export type Report = DataOf<paths["/v1/token/{tokenAddress}"]["get"]>;
export type BatchReports = DataOf<paths["/v1/tokens/batch"]["post"]>;
export type CandlesPage = DataOf<paths["/v1/token/{tokenAddress}/candles"]["get"]>;
export type CandleLine = CandlesPage["candles"][number];
export type CandlesQuery = Omit<NonNullable<paths["/v1/token/{tokenAddress}/candles"]["get"]["parameters"]["query"]>, "tf" | "cursor">;
/** `candles`: "closed" for indicators without the candle that is still open; `partial`: from the first priced swap on. */
export type ReportOptions = NonNullable<paths["/v1/token/{tokenAddress}"]["get"]["parameters"]["query"]>;
export type Timeframe = NonNullable<NonNullable<paths["/v1/token/{tokenAddress}/candles"]["get"]["parameters"]["query"]>["tf"]>;
type IndicatorsRead = paths["/v1/token/{tokenAddress}/indicators"]["get"];
export type IndicatorsPage = DataOf<IndicatorsRead>;
export type IndicatorLine = IndicatorsPage["points"][number];
export type IndicatorsQuery = Omit<NonNullable<IndicatorsRead["parameters"]["query"]>, "tf" | "cursor">;
export type ReportTimeframe = NonNullable<IndicatorsRead["parameters"]["query"]>["tf"];
export type SwapsPage = DataOf<paths["/v1/token/{tokenAddress}/swaps"]["get"]>;
export type SwapRecord = SwapsPage["swaps"][number];
export type TokensPage = DataOf<paths["/v1/tokens"]["get"]>;
export type TokenLine = TokensPage["tokens"][number];
export type TokensQuery = Omit<NonNullable<paths["/v1/tokens"]["get"]["parameters"]["query"]>, "cursor">;
export type TokenMetadata = DataOf<paths["/v1/token/{tokenAddress}/metadata"]["get"]>;
/** The whole report of a mint as of a slot, as a stream tells it. */
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
export {};
