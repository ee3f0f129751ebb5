import { AccountCalls } from "./account.ts";
import type { CreditBudget } from "./budget.ts";
import type { Answer, Call, Query } from "./call.ts";
import { known } from "./known.ts";
import type { paths } from "./openapi.ts";
import { type Page, PagedLines } from "./pages.ts";
import { stream } from "./stream.ts";
import { type ClientOptions, Transport, seconds } from "./transport.ts";
import type { DataOf, LiveReport, Report, ReportOptions } from "./types.ts";

export type BatchReports = DataOf<paths["/v1/tokens/batch"]["post"]>;
export type CandlesPage = DataOf<paths["/v1/token/{tokenAddress}/candles"]["get"]>;
export type CandleLine = CandlesPage["candles"][number];
/** `Query` with times that are Unix seconds or a Date. */
type Timed<Query> = Omit<Query, "from" | "to"> & { from?: number | Date; to?: number | Date };
type Within<Query> = Timed<Omit<Query, "tf" | "cursor">>;
export type CandlesQuery = Within<
  NonNullable<paths["/v1/token/{tokenAddress}/candles"]["get"]["parameters"]["query"]>
>;
/** The options of a report. `at` requests a past report: Unix seconds, or "slot:312345678". */
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
export type BacktestQuery = Timed<
  Omit<NonNullable<paths["/v1/token/{tokenAddress}/backtest"]["get"]["parameters"]["query"]>, "where">
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

const BALANCE: Call<CreditBalance> = { name: "balance", method: "GET", path: "/v1/credits/balance", creditsMax: 0 };
/** The most lines of a page; a page costs the same with fewer. */
const LINES_MAX = 1000;
const SWAPS_MAX = 500;
const OF_REPORT = ["candles", "partial", "timeframes"];
const OF_TOKEN = [...OF_REPORT, "at"];
const OF_BACKTESTS = ["tf", "from", "to", "feeBps", "tradeUsd", "candles"];
const OF_CANDLES = ["from", "to", "limit", "candles", "fill", "in"];
const OF_SCREENS = ["sort", "order", "fields", "limit"];
const OF_TOKENS = ["query", "sort", "order", "limit"];

/**
 * A client that reads from the service at a URL, and buys credits there. Calls throw the errors of
 * errors.ts. A call is repeated if it may then succeed, with the same Idempotency-Key, after a
 * pause, or after the time that the service names if that is longer.
 */
export class Client extends AccountCalls {
  readonly #transport: Transport;

  constructor(url: string, options: ClientOptions = {}) {
    super();
    this.#transport = new Transport(url, options);
  }

  /** The budget of the client, with the credits that it has spent so far. */
  get budget(): CreditBudget {
    return this.#transport.budget;
  }

  /** Send a call; return its whole answer. */
  override send<Data>(call: Call<Data>, key?: string): Promise<Answer<Data>> {
    return this.#transport.send(call, key);
  }

  /** The calls of this client; each returns its whole answer: the data, status and headers. */
  get withRawResponse(): RawResponses {
    const raw: object = Object.create(this, {
      data: { value: <Data>(call: Call<Data>) => this.send(call) },
      balance: { value: () => this.send(BALANCE) },
    });
    return raw as RawResponses;
  }

  /** Return the report of a mint: price, indicators and pressure. Costs one credit. */
  async token(mint: string, options: TokenOptions = {}): Promise<Report> {
    known(options, OF_TOKEN);
    const path = `/v1/token/${segment(mint)}`;
    return await this.data({ name: "token", method: "GET", path, query: options, creditsMax: 1 });
  }

  /** Return the report of a mint for free, by default ten times a day per client IP address. */
  async trial(mint: string, options: ReportOptions = {}): Promise<Report> {
    known(options, OF_REPORT);
    const path = `/v1/trial/${segment(mint)}`;
    return await this.data({ name: "trial", method: "GET", path, query: options, creditsMax: 0 });
  }

  /**
   * Return the reports of up to 50 mints, or the reasons why they are missing. Each delivered
   * report costs one credit.
   */
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

  /**
   * Return pages of candles of a mint, the newest page first. A page has up to 1,000 candles, the
   * default, and costs one credit.
   */
  candles(mint: string, tf: Timeframe, within: CandlesQuery = {}): PagedLines<CandlesPage, CandleLine> {
    known(within, [...OF_CANDLES, "pool", "profile"]);
    return this.#series<CandlesPage, CandleLine>("candles", mint, { limit: LINES_MAX, ...within, tf }, (page) => page.candles);
  }

  /**
   * Return pages of indicators of each candle, the newest page first. A page has up to 1,000
   * points, and costs one credit.
   */
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

  /** Return pages of swaps, newest first. A page has up to 500 swaps, and costs one credit. */
  swaps(mint: string, within: { limit?: number } = {}): PagedLines<SwapsPage, SwapRecord> {
    return this.#series<SwapsPage, SwapRecord>("swaps", mint, { limit: SWAPS_MAX, ...within }, (page) => page.swaps);
  }

  /**
   * Return pages of the tokens that the service tracks. Free. `query` is a part of the name or
   * symbol, or the beginning of the mint.
   */
  tokens(asked: TokensQuery = {}): PagedLines<TokensPage, TokenLine> {
    known(asked, OF_TOKENS);
    const call: Call<TokensPage> = { name: "tokens", method: "GET", path: "/v1/tokens", creditsMax: 0 };
    return this.#paged<TokensPage, TokenLine>(call, asked, (page) => page.tokens);
  }

  /**
   * Return up to 100 past prices at times in Unix seconds. Costs one credit, or none if no price is
   * found.
   */
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

  /**
   * Return the firings of a condition in the past of a mint. Costs one credit, or none if the
   * condition was not evaluated.
   */
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

  /**
   * Return the firings of a condition in the past of up to 50 mints. Each 10,000 candles that are
   * read, or part of them, cost one credit; no credit if the condition was not evaluated.
   */
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
      body: { mints, where, ...asked, from: seconds(asked.from), to: seconds(asked.to) },
      creditsMax: 4 * mints.length,
      creditsOf: (found) => (found.looks ? Math.ceil(found.candles / 10_000) : 0),
    });
  }

  /**
   * Return the pools of a mint, the greatest weight in its price first. Costs one credit.
   */
  async pools(mint: string): Promise<TokenPools> {
    const path = `/v1/token/${segment(mint)}/pools`;
    return await this.data({ name: "pools", method: "GET", path, creditsMax: 1 });
  }

  /** Return the 20 largest token accounts of a mint. Costs one credit. */
  async holders(mint: string): Promise<TokenHolders> {
    const path = `/v1/token/${segment(mint)}/holders`;
    return await this.data({ name: "holders", method: "GET", path, creditsMax: 1 });
  }

  /**
   * Return the traders of a mint, the greatest volume first. Costs one credit, or none if the token
   * was not traded within a day.
   */
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

  /**
   * Return pages of tokens for which a condition is true. A page has up to 100 tokens, and costs
   * one credit.
   */
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

  /** Return the on-chain metadata of a mint. Free. */
  async metadata(mint: string): Promise<TokenMetadata> {
    const path = `/v1/token/${segment(mint)}/metadata`;
    return await this.data({ name: "metadata", method: "GET", path, creditsMax: 0 });
  }

  /**
   * Yield the report of each mint when it changes. Each started minute costs one credit per mint.
   * After a lost connection, the client connects again; an error that ends the stream is thrown. To
   * end the stream, leave the loop.
   */
  stream(mints: readonly string[], options: ReportOptions = {}): AsyncGenerator<LiveReport, void, undefined> {
    return stream(this.#transport, mints, options);
  }

  /** Return the bundles for sale, with their current prices. Free. */
  async bundles(): Promise<BundleList> {
    return await this.data({ name: "bundles", method: "GET", path: "/v1/credits/bundles", creditsMax: 0 });
  }

  /** Return the number of credits that are left on the credential. Free. */
  async balance(): Promise<number> {
    return (await this.data(BALANCE)).balance;
  }

  /** Return the changes and spends of the balance of the credential. Free. */
  async history(): Promise<CreditHistory> {
    return await this.data({ name: "history", method: "GET", path: "/v1/credits/history", creditsMax: 0 });
  }

  /**
   * Buy a bundle of credits. They are added to the credential, if there is one. `key` is the key of
   * a PendingError, to continue that payment; the same `Payer` never signs two payments for one key.
   */
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

  /** Return the pages of a series; a page without lines costs nothing. */
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

/**
 * The type of `Client.withRawResponse`: each call returns its `Answer`. Calls with pages, purchases
 * and streams are not in it.
 */
export type RawResponses = {
  readonly [Name in OneCall]: (
    ...given: Parameters<Client[Name]>
  ) => Promise<Answer<Awaited<ReturnType<Client[Name]>>>>;
} & { readonly balance: () => Promise<Answer<CreditBalance>> };

function segment(text: string): string {
  return encodeURIComponent(text);
}
