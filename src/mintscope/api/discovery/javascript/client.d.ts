import { AccountCalls } from "./account.ts";
import type { CreditBudget } from "./budget.ts";
import type { Answer, Call } from "./call.ts";
import { PagedLines } from "./pages.ts";
import { type ClientOptions } from "./transport.ts";
import type { BacktestQuery, BatchReports, BundleList, CandleLine, CandlesPage, CandlesQuery, CreditHistory, CreditPurchase, IndicatorLine, IndicatorsPage, IndicatorsQuery, LiveReport, PastPrices, Report, ReportOptions, ReportTimeframe, ScreenedToken, ScreenPage, ScreenQuery, SwapRecord, SwapsPage, TokenBacktest, Timeframe, TokenLine, TokenMetadata, TokenOptions, TokenPools, TokenTraders, TokensBacktest, TokensPage, TokensQuery } from "./types.ts";
/**
 * Reads from the service at a URL, and buys credits there. Calls throw what errors.ts lists; a call
 * is sent again where that can help, as the service asks, with the same Idempotency-Key.
 */
export declare class Client extends AccountCalls {
    #private;
    constructor(url: string, options?: ClientOptions);
    /** The budget in credits, and what was spent of it. */
    get budget(): CreditBudget;
    /** Send any call; return all that its answer says. */
    send<Data>(call: Call<Data>, key?: string): Promise<Answer<Data>>;
    /** The same calls, each of which returns the whole answer: data, status and headers. */
    get withRawResponse(): RawResponses;
    /** Price, indicators and pressure of a mint: one credit. */
    token(mint: string, options?: TokenOptions): Promise<Report>;
    /** The same report for free, ten times a day and client address by default. */
    trial(mint: string, options?: ReportOptions): Promise<Report>;
    /** Reports of up to 50 mints, or why not: a credit for each that is delivered. */
    batch(mints: readonly string[], options?: ReportOptions): Promise<BatchReports>;
    /** Candles of a mint, the newest page first: a credit for a page of up to 1,000, which it has by default. */
    candles(mint: string, tf: Timeframe, within?: CandlesQuery): PagedLines<CandlesPage, CandleLine>;
    /** Indicators candle by candle, the newest page first: a credit for a page of up to 1,000. */
    indicators(mint: string, tf: ReportTimeframe, within?: IndicatorsQuery): PagedLines<IndicatorsPage, IndicatorLine>;
    /** Swaps, the newest first: a credit for a page of up to 500. */
    swaps(mint: string, within?: {
        limit?: number;
    }): PagedLines<SwapsPage, SwapRecord>;
    /** The tokens that the service follows: free. `query`: in the name or symbol, or before the mint. */
    tokens(asked?: TokensQuery): PagedLines<TokensPage, TokenLine>;
    /** Prices at times of the past, Unix seconds: a credit for up to 100, none for none. */
    pastPrices(prices: readonly {
        mint: string;
        t: number;
    }[]): Promise<PastPrices>;
    /** Firings of a condition in the past of a mint: one credit, none without a look. */
    backtest(mint: string, where: string, asked?: BacktestQuery): Promise<TokenBacktest>;
    /** Firings of a condition in the past of up to 50 mints: a credit for each 10,000 candles read. */
    backtestTokens(mints: readonly string[], where: string, asked?: BacktestQuery): Promise<TokensBacktest>;
    /** The pools that decide the price of a mint, the heaviest first: one credit. */
    pools(mint: string): Promise<TokenPools>;
    /** Traders of a mint, those with the most first: one credit. `limit`: up to 100. */
    traders(mint: string, within?: {
        limit?: number;
    }): Promise<TokenTraders>;
    /** The tokens for which a condition is true: a credit for a page of up to 100. */
    screen(where?: string, asked?: ScreenQuery): PagedLines<ScreenPage, ScreenedToken>;
    /** The facts of a mint on chain: free. */
    metadata(mint: string): Promise<TokenMetadata>;
    /**
     * The report of each mint as it changes: a credit a mint and started minute. A connection that is
     * lost is opened again; what ends the stream for good is thrown. End it by leaving the loop.
     */
    stream(mints: readonly string[], options?: ReportOptions): AsyncGenerator<LiveReport, void, undefined>;
    /** The bundles for sale, and their prices now: free. */
    bundles(): Promise<BundleList>;
    /** The credits left on the credential: free. */
    balance(): Promise<number>;
    /** Where the credits of the credential came from and went: free. */
    history(): Promise<CreditHistory>;
    /** Buy a bundle of credits, onto the credential if there is one. `key`: of a PendingError. */
    buyCredits(credits: number, key?: string): Promise<CreditPurchase>;
}
type Named = Exclude<keyof Client, "withRawResponse" | "balance" | "buyCredits" | "send" | "data">;
type OneCall = {
    [Name in Named]: Client[Name] extends (...given: never[]) => Promise<unknown> ? Name : never;
}[Named];
/** `Client.withRawResponse`: each call returns its `Answer`; paged ones and streams have none. */
export type RawResponses = {
    readonly [Name in OneCall]: (...given: Parameters<Client[Name]>) => Promise<Answer<Awaited<ReturnType<Client[Name]>>>>;
};
export {};
