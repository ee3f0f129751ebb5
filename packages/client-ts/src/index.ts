export { AccountCalls } from "./account.ts";
export { CreditBudget } from "./budget.ts";
export type { Answer, Call, Method } from "./call.ts";
export { Client, type RawResponses } from "./client.ts";
export * from "./errors.ts";
export { type Page, PagedLines } from "./pages.ts";
export { type Demand, type Offer, Payer, type Pin, type Signer } from "./payment.ts";
export type { ClientOptions } from "./transport.ts";
export type * from "./types.ts";
