import { AccountCalls } from "./account.ts";
import type { CreditBudget } from "./budget.ts";
import type { Answer, Call, Query } from "./call.ts";
import { known } from "./known.ts";
import type { paths } from "./openapi.ts";
import { type Page, PagedLines } from "./pages.ts";
import { stream } from "./stream.ts";
import { type ClientOptions, Transport } from "./transport.ts";
import type { DataOf, LiveReport, Report, ReportOptions } from "./types.ts";

export type BatchReports = DataOf<paths["/v1/tokens/batch"]["post"]>;
export type CandlesPage = DataOf<paths["/v1/token/{tokenAddress}/candles"]["get"]>;
export type CandleLine = CandlesPage["candles"][number];
/** Moments as Unix seconds or a Date. */
type Within<Query> = Omit<Query, "tf" | "cursor" | "from" | "to"> & { from?: number | Date; to?: number | Date };
export type CandlesQuery = Within<
  NonNullable<paths["/v1/token/{tokenAddress}/candles"]["get"]["parameters"]["query"]>
>;
/** ReportOptions, and `at`: the report as it was, Unix seconds or "slot:312345678". */
export type TokenOptions = NonNullable<paths["/v1/token/{tokenAddress}"]["get"]["parameters"]["query"]>;
export type Timeframe = NonNullable<
  NonNullable<paths["/v1/token/{tokenAddress}/candles"]["get"]["parameters"]["query"]>["tf"]
>;
type IndicatorsRead = paths["/v1/token/{tokenAddress}/indicators"]["get"];
export type IndicatorsPage = DataOf<IndicatorsRead>;
export type IndicatorLine = IndicatorsPage["points"][number];
export type IndicatorsQuery = Within<NonNullable<IndicatorsRead["parameters"]["query"]>>;
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
export type BundleList = DataOf<paths["/v1/credits/bundles"]["get"]>;
export type CreditBalance = DataOf<paths["/v1/credits/balance"]["get"]>;
export type CreditHistory = DataOf<paths["/v1/credits/history"]["get"]>;
export type CreditPurchase = DataOf<paths["/v1/credits/purchase"]["post"]>;

/** The most lines of a page; it costs the same however long it is. */
const LINES_MAX = 1000;
const SWAPS_MAX = 500;
const OF_REPORT = ["candles", "partial", "timeframes"];
const OF_TOKEN = [...OF_REPORT, "at"];
const OF_BACKTESTS = ["tf", "from", "to", "feeBps", "tradeUsd", "candles"];
const OF_CANDLES = ["from", "to", "limit", "candles", "fill", "in"];
const OF_SCREENS = ["sort", "order", "fields", "limit"];
const OF_TOKENS = ["query", "sort", "order", "limit"];

/**
 * Reads from the service at a URL, and buys credits there. Calls throw what errors.ts lists; a call
 * is sent again where that can help, as the service asks, with the same Idempotency-Key.
 */
export class Client extends AccountCalls {
  readonly #transport: Transport;

  constructor(url: string, options: ClientOptions = {}) {
    super();
    this.#transport = new Transport(url, options);
  }

  /** The budget in credits, and what was spent of it. */
  get budget(): CreditBudget {
    return this.#transport.budget;
  }

  /** Send any call; return all that its answer says. */
  override send<Data>(call: Call<Data>, key?: string): Promise<Answer<Data>> {
    return this.#transport.send(call, key);
  }

  /** The same calls, each of which returns the whole answer: data, status and headers. */
  get withRawResponse(): RawResponses {
    const raw: object = Object.create(this, {
      data: { value: <Data>(call: Call<Data>) => this.send(call) },
    });
    return raw as RawResponses;
  }

  /** Price, indicators and pressure of a mint: one credit. */
  async token(mint: string, options: TokenOptions = {}): Promise<Report> {
    known(options, OF_TOKEN);
    const path = `/v1/token/${segment(mint)}`;
    return await this.data({ name: "token", method: "GET", path, query: options, creditsMax: 1 });
  }

  /** The same report for free, ten times a day and client address by default. */
  async trial(mint: string, options: ReportOptions = {}): Promise<Report> {
    known(options, OF_REPORT);
    const path = `/v1/trial/${segment(mint)}`;
    return await this.data({ name: "trial", method: "GET", path, query: options, creditsMax: 0 });
  }

  /** Reports of up to 50 mints, or why not: a credit for each that is delivered. */
  async batch(mints: readonly string[], options: ReportOptions = {}): Promise<BatchReports> {
    known(options, OF_REPORT);
    return await this.data<BatchReports>({
      name: "batch",
      method: "POST",
      path: "/v1/tokens/batch",
      body: { mints, ...options },
      creditsMax: mints.length,
      creditsOf: (batch) => batch.delivered,
    });
  }

  /** Candles of a mint, the newest page first: a credit for a page of up to 1,000, which it has by default. */
  candles(mint: string, tf: Timeframe, within: CandlesQuery = {}): PagedLines<CandlesPage, CandleLine> {
    known(within, [...OF_CANDLES, "pool", "profile"]);
    return this.#series<CandlesPage, CandleLine>("candles", mint, { limit: LINES_MAX, ...within, tf }, (page) => page.candles);
  }

  /** Indicators candle by candle, the newest page first: a credit for a page of up to 1,000. */
  indicators(
    mint: string,
    tf: Timeframe,
    within: IndicatorsQuery = {},
  ): PagedLines<IndicatorsPage, IndicatorLine> {
    known(within, [...OF_CANDLES, "names"]);
    const { names, ...rest } = within;
    const query = { limit: LINES_MAX, ...rest, names: names?.join(","), tf };
    return this.#series<IndicatorsPage, IndicatorLine>("indicators", mint, query, (page) => page.points);
  }

  /** Swaps, the newest first: a credit for a page of up to 500. */
  swaps(mint: string, within: { limit?: number } = {}): PagedLines<SwapsPage, SwapRecord> {
    return this.#series<SwapsPage, SwapRecord>("swaps", mint, { limit: SWAPS_MAX, ...within }, (page) => page.swaps);
  }

  /** The tokens that the service follows: free. `query`: in the name or symbol, or before the mint. */
  tokens(asked: TokensQuery = {}): PagedLines<TokensPage, TokenLine> {
    known(asked, OF_TOKENS);
    const call: Call<TokensPage> = { name: "tokens", method: "GET", path: "/v1/tokens", creditsMax: 0 };
    return this.#paged<TokensPage, TokenLine>(call, asked, (page) => page.tokens);
  }

  /** Prices at times of the past, Unix seconds: a credit for up to 100, none for none. */
  async pastPrices(prices: readonly { mint: string; t: number }[]): Promise<PastPrices> {
    return await this.data<PastPrices>({
      name: "pastPrices",
      method: "POST",
      path: "/v1/prices",
      body: { prices },
      creditsMax: 1,
      creditsOf: (page) => Math.min(page.found, 1),
    });
  }

  /** Firings of a condition in the past of a mint: one credit, none without a look. */
  async backtest(mint: string, where: string, asked: BacktestQuery = {}): Promise<TokenBacktest> {
    known(asked, OF_BACKTESTS);
    return await this.data<TokenBacktest>({
      name: "backtest",
      method: "GET",
      path: `/v1/token/${segment(mint)}/backtest`,
      query: { where, ...asked },
      creditsMax: 1,
      creditsOf: (found) => Math.min(found.looks, 1),
    });
  }

  /** Firings of a condition in the past of up to 50 mints: a credit for each 10,000 candles read. */
  async backtestTokens(
    mints: readonly string[],
    where: string,
    asked: BacktestQuery = {},
  ): Promise<TokensBacktest> {
    known(asked, OF_BACKTESTS);
    return await this.data<TokensBacktest>({
      name: "backtestTokens",
      method: "POST",
      path: "/v1/backtest",
      body: { mints, where, ...asked },
      creditsMax: 4 * mints.length,
      creditsOf: (found) => (found.looks ? Math.ceil(found.candles / 10_000) : 0),
    });
  }

  /** The pools that decide the price of a mint, the heaviest first: one credit. */
  async pools(mint: string): Promise<TokenPools> {
    const path = `/v1/token/${segment(mint)}/pools`;
    return await this.data({ name: "pools", method: "GET", path, creditsMax: 1 });
  }

  /** The 20 largest holders of a mint: one credit. */
  async holders(mint: string): Promise<TokenHolders> {
    const path = `/v1/token/${segment(mint)}/holders`;
    return await this.data({ name: "holders", method: "GET", path, creditsMax: 1 });
  }

  /** Traders of a mint, those with the most first: one credit, none without any of a day. */
  async traders(mint: string, within: { limit?: number } = {}): Promise<TokenTraders> {
    const path = `/v1/token/${segment(mint)}/traders`;
    return await this.data<TokenTraders>({
      name: "traders",
      method: "GET",
      path,
      query: within,
      creditsMax: 1,
      creditsOf: (page) => Math.min(page.traders.length + (page.d1?.swaps ?? 0), 1),
    });
  }

  /** The tokens for which a condition is true: a credit for a page of up to 100. */
  screen(where = "", asked: ScreenQuery = {}): PagedLines<ScreenPage, ScreenedToken> {
    known(asked, OF_SCREENS);
    const call: Call<ScreenPage> = {
      name: "screen",
      method: "GET",
      path: "/v1/screen",
      creditsMax: 1,
      creditsOf: (page) => Math.min(page.tokens.length, 1),
    };
    const { fields, ...rest } = asked;
    const query = { where: where || undefined, ...rest, fields: fields?.join(",") || undefined };
    return this.#paged<ScreenPage, ScreenedToken>(call, query, (page) => page.tokens);
  }

  /** The facts of a mint on chain: free. */
  async metadata(mint: string): Promise<TokenMetadata> {
    const path = `/v1/token/${segment(mint)}/metadata`;
    return await this.data({ name: "metadata", method: "GET", path, creditsMax: 0 });
  }

  /**
   * The report of each mint as it changes: a credit a mint and started minute. A connection that is
   * lost is opened again; what ends the stream for good is thrown. End it by leaving the loop.
   */
  stream(mints: readonly string[], options: ReportOptions = {}): AsyncGenerator<LiveReport, void, undefined> {
    return stream(this.#transport, mints, options);
  }

  /** The bundles for sale, and their prices now: free. */
  async bundles(): Promise<BundleList> {
    return await this.data({ name: "bundles", method: "GET", path: "/v1/credits/bundles", creditsMax: 0 });
  }

  /** The credits left on the credential: free. */
  async balance(): Promise<number> {
    const call: Call<CreditBalance> = {
      name: "balance",
      method: "GET",
      path: "/v1/credits/balance",
      creditsMax: 0,
    };
    return (await this.data(call)).balance;
  }

  /** Where the credits of the credential came from and went: free. */
  async history(): Promise<CreditHistory> {
    return await this.data({ name: "history", method: "GET", path: "/v1/credits/history", creditsMax: 0 });
  }

  /** Buy a bundle of credits, onto the credential if there is one. `key`: of a PendingError. */
  async buyCredits(credits: number, key?: string): Promise<CreditPurchase> {
    const call: Call<CreditPurchase> = {
      name: "purchase",
      method: "POST",
      path: "/v1/credits/purchase",
      query: { bundle: credits },
      creditsMax: 0,
      isPurchase: true,
    };
    return (await this.send(call, key)).data;
  }

  /** Pages of a series; one without lines costs nothing. */
  #series<P extends Page, Line>(
    name: string,
    mint: string,
    query: Query,
    lines: (page: P) => readonly Line[],
  ): PagedLines<P, Line> {
    const call: Call<P> = {
      name,
      method: "GET",
      path: `/v1/token/${segment(mint)}/${name}`,
      creditsMax: 1,
      creditsOf: (page) => Math.min(lines(page).length, 1),
    };
    return this.#paged(call, query, lines);
  }

  #paged<P extends Page, Line>(
    call: Call<P>,
    query: Query,
    lines: (page: P) => readonly Line[],
  ): PagedLines<P, Line> {
    return new PagedLines(
      (each) => this.send(each),
      (cursor) => ({ ...call, query: { ...query, cursor } }),
      lines,
    );
  }
}

type Named = Exclude<keyof Client, "withRawResponse" | "balance" | "buyCredits" | "send" | "data">;
type OneCall = {
  [Name in Named]: Client[Name] extends (...given: never[]) => Promise<unknown> ? Name : never;
}[Named];

/** `Client.withRawResponse`: each call returns its `Answer`; paged ones and streams have none. */
export type RawResponses = {
  readonly [Name in OneCall]: (
    ...given: Parameters<Client[Name]>
  ) => Promise<Answer<Awaited<ReturnType<Client[Name]>>>>;
};

function segment(text: string): string {
  return encodeURIComponent(text);
}
