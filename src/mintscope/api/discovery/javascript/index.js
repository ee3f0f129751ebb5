export { AccountCalls } from "./account.js";
export { CreditBudget } from "./budget.js";
export { Client } from "./client.js";
export * from "./errors.js";
export { keypairWallet, parseKeypair } from "./keypair.js";
export { PagedLines } from "./pages.js";
export { Payer } from "./payment.js";
export { checkReceipt, ForgedReceiptError } from "./receipts.js";
export { WalletSignIn } from "./signIn.js";
