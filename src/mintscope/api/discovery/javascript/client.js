import { AccountCalls } from "./account.js";
import { known } from "./known.js";
import { PagedLines } from "./pages.js";
import { stream } from "./stream.js";
import { Transport } from "./transport.js";
/** The most lines of a page; it costs the same however long it is. */
const LINES_MAX = 1000;
const SWAPS_MAX = 500;
const OF_REPORT = ["candles", "partial", "timeframes"];
const OF_TOKEN = [...OF_REPORT, "at"];
const OF_BACKTESTS = ["tf", "from", "to", "feeBps", "tradeUsd"];
const OF_CANDLES = ["from", "to", "limit", "candles", "fill", "in"];
const OF_SCREENS = ["sort", "order", "fields", "limit"];
const OF_TOKENS = ["query", "sort", "order", "limit"];
/**
 * Reads from the service at a URL, and buys credits there. Calls throw what errors.ts lists; a call
 * is sent again where that can help, as the service asks, with the same Idempotency-Key.
 */
export class Client extends AccountCalls {
    #transport;
    constructor(url, options = {}) {
        super();
        this.#transport = new Transport(url, options);
    }
    /** The budget in credits, and what was spent of it. */
    get budget() {
        return this.#transport.budget;
    }
    /** Send any call; return all that its answer says. */
    send(call, key) {
        return this.#transport.send(call, key);
    }
    /** The same calls, each of which returns the whole answer: data, status and headers. */
    get withRawResponse() {
        const raw = Object.create(this, {
            data: { value: (call) => this.send(call) },
        });
        return raw;
    }
    /** Price, indicators and pressure of a mint: one credit. */
    async token(mint, options = {}) {
        known(options, OF_TOKEN);
        const path = `/v1/token/${segment(mint)}`;
        return await this.data({ name: "token", method: "GET", path, query: options, creditsMax: 1 });
    }
    /** The same report for free, ten times a day and client address by default. */
    async trial(mint, options = {}) {
        known(options, OF_REPORT);
        const path = `/v1/trial/${segment(mint)}`;
        return await this.data({ name: "trial", method: "GET", path, query: options, creditsMax: 0 });
    }
    /** Reports of up to 50 mints, or why not: a credit for each that is delivered. */
    async batch(mints, options = {}) {
        known(options, OF_REPORT);
        return await this.data({
            name: "batch",
            method: "POST",
            path: "/v1/tokens/batch",
            body: { mints, ...options },
            creditsMax: mints.length,
            creditsOf: (batch) => batch.delivered,
        });
    }
    /** Candles of a mint, the newest page first: a credit for a page of up to 1,000, which it has by default. */
    candles(mint, tf, within = {}) {
        known(within, [...OF_CANDLES, "profile"]);
        return this.#series("candles", mint, { limit: LINES_MAX, ...within, tf }, (page) => page.candles);
    }
    /** Indicators candle by candle, the newest page first: a credit for a page of up to 1,000. */
    indicators(mint, tf, within = {}) {
        known(within, [...OF_CANDLES, "names"]);
        const { names, ...rest } = within;
        const query = { limit: LINES_MAX, ...rest, names: names?.join(","), tf };
        return this.#series("indicators", mint, query, (page) => page.points);
    }
    /** Swaps, the newest first: a credit for a page of up to 500. */
    swaps(mint, within = {}) {
        return this.#series("swaps", mint, { limit: SWAPS_MAX, ...within }, (page) => page.swaps);
    }
    /** The tokens that the service follows: free. `query`: in the name or symbol, or before the mint. */
    tokens(asked = {}) {
        known(asked, OF_TOKENS);
        const call = { name: "tokens", method: "GET", path: "/v1/tokens", creditsMax: 0 };
        return this.#paged(call, asked, (page) => page.tokens);
    }
    /** Prices at times of the past, Unix seconds: a credit for up to 100, none for none. */
    async pastPrices(prices) {
        return await this.data({
            name: "pastPrices",
            method: "POST",
            path: "/v1/prices",
            body: { prices },
            creditsMax: 1,
            creditsOf: (page) => Math.min(page.found, 1),
        });
    }
    /** Firings of a condition in the past of a mint: one credit, none without a look. */
    async backtest(mint, where, asked = {}) {
        known(asked, OF_BACKTESTS);
        return await this.data({
            name: "backtest",
            method: "GET",
            path: `/v1/token/${segment(mint)}/backtest`,
            query: { where, ...asked },
            creditsMax: 1,
            creditsOf: (found) => Math.min(found.looks, 1),
        });
    }
    /** Firings of a condition in the past of up to 50 mints: a credit for each 10,000 candles read. */
    async backtestTokens(mints, where, asked = {}) {
        known(asked, OF_BACKTESTS);
        return await this.data({
            name: "backtestTokens",
            method: "POST",
            path: "/v1/backtest",
            body: { mints, where, ...asked },
            creditsMax: 4 * mints.length,
            creditsOf: (found) => (found.looks ? Math.ceil(found.candles / 10_000) : 0),
        });
    }
    /** The pools that decide the price of a mint, the heaviest first: one credit. */
    async pools(mint) {
        const path = `/v1/token/${segment(mint)}/pools`;
        return await this.data({ name: "pools", method: "GET", path, creditsMax: 1 });
    }
    /** Traders of a mint, those with the most first: one credit. `limit`: up to 100. */
    async traders(mint, within = {}) {
        const path = `/v1/token/${segment(mint)}/traders`;
        return await this.data({
            name: "traders",
            method: "GET",
            path,
            query: within,
            creditsMax: 1,
            creditsOf: (page) => Math.min(page.traders.length, 1),
        });
    }
    /** The tokens for which a condition is true: a credit for a page of up to 100. */
    screen(where = "", asked = {}) {
        known(asked, OF_SCREENS);
        const call = {
            name: "screen",
            method: "GET",
            path: "/v1/screen",
            creditsMax: 1,
            creditsOf: (page) => Math.min(page.tokens.length, 1),
        };
        const { fields, ...rest } = asked;
        const query = { where: where || undefined, ...rest, fields: fields?.join(",") || undefined };
        return this.#paged(call, query, (page) => page.tokens);
    }
    /** The facts of a mint on chain: free. */
    async metadata(mint) {
        const path = `/v1/token/${segment(mint)}/metadata`;
        return await this.data({ name: "metadata", method: "GET", path, creditsMax: 0 });
    }
    /**
     * The report of each mint as it changes: a credit a mint and started minute. A connection that is
     * lost is opened again; what ends the stream for good is thrown. End it by leaving the loop.
     */
    stream(mints, options = {}) {
        return stream(this.#transport, mints, options);
    }
    /** The bundles for sale, and their prices now: free. */
    async bundles() {
        return await this.data({ name: "bundles", method: "GET", path: "/v1/credits/bundles", creditsMax: 0 });
    }
    /** The credits left on the credential: free. */
    async balance() {
        const call = {
            name: "balance",
            method: "GET",
            path: "/v1/credits/balance",
            creditsMax: 0,
        };
        return (await this.data(call)).balance;
    }
    /** Where the credits of the credential came from and went: free. */
    async history() {
        return await this.data({ name: "history", method: "GET", path: "/v1/credits/history", creditsMax: 0 });
    }
    /** Buy a bundle of credits, onto the credential if there is one. `key`: of a PendingError. */
    async buyCredits(credits, key) {
        const call = {
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
    #series(name, mint, query, lines) {
        const call = {
            name,
            method: "GET",
            path: `/v1/token/${segment(mint)}/${name}`,
            creditsMax: 1,
            creditsOf: (page) => Math.min(lines(page).length, 1),
        };
        return this.#paged(call, query, lines);
    }
    #paged(call, query, lines) {
        return new PagedLines((each) => this.send(each), (cursor) => ({ ...call, query: { ...query, cursor } }), lines);
    }
}
function segment(text) {
    return encodeURIComponent(text);
}
