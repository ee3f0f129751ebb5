import type { CreditBudget } from "./budget.ts";
import type { Answer, Call } from "./call.ts";
import { type ClientOptions, Transport } from "./transport.ts";
import type { BundleList, CreditBalance, CreditHistory, CreditPurchase, Report } from "./types.ts";

/**
 * Reads from the service at a URL, and buys credits there. Calls throw what errors.ts lists; a call
 * is sent again where that can help, as the service asks, with the same Idempotency-Key.
 */
export class Client {
  readonly #transport: Transport;

  constructor(url: string, options: ClientOptions = {}) {
    this.#transport = new Transport(url, options);
  }

  /** What may be spent, in credits, and what was. */
  get budget(): CreditBudget {
    return this.#transport.budget;
  }

  /** Send any call; return all that its answer says. */
  send<Data>(call: Call<Data>, key?: string): Promise<Answer<Data>> {
    return this.#transport.send(call, key);
  }

  /** Price, indicators and pressure of a mint: one credit. */
  async token(mint: string): Promise<Report> {
    return await this.#data({ name: "token", method: "GET", path: `/v1/token/${segment(mint)}`, creditsMax: 1 });
  }

  /** The bundles for sale, and their prices now: free. */
  async bundles(): Promise<BundleList> {
    return await this.#data({ name: "bundles", method: "GET", path: "/v1/credits/bundles", creditsMax: 0 });
  }

  /** The credits left on the credential: free. */
  async balance(): Promise<number> {
    const call: Call<CreditBalance> = {
      name: "balance",
      method: "GET",
      path: "/v1/credits/balance",
      creditsMax: 0,
    };
    return (await this.#data(call)).balance;
  }

  /** Where the credits of the credential came from and went: free. */
  async history(): Promise<CreditHistory> {
    return await this.#data({ name: "history", method: "GET", path: "/v1/credits/history", creditsMax: 0 });
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

  async #data<Data>(call: Call<Data>): Promise<Data> {
    return (await this.send(call)).data;
  }
}

function segment(text: string): string {
  return encodeURIComponent(text);
}
