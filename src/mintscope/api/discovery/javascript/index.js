export { AccountCalls } from "./account.js";
export { CreditBudget } from "./budget.js";
export { Client } from "./client.js";
export * from "./errors.js";
export { parseKeypair } from "./keypair.js";
export { PagedLines } from "./pages.js";
export { Payer } from "./payment.js";
