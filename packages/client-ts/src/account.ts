import type { Answer, Call, Method } from "./call.ts";
import { known } from "./known.ts";
import type { paths } from "./openapi.ts";
import { PagedLines } from "./pages.ts";
import type { DidDocument } from "./receipts.ts";
import type { BareOf, BodyOf, DataOf, Sent } from "./types.ts";

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

const PAGE_MAX = 100;
const OF_SIGNUP = ["email", "motivation", "userType", "scopes", "telegram", "twitter"];
const OF_CHANGES = [
  "name", "level", "margin", "percent", "windowS", "candles", "leastConfidence", "webhookUrl",
  "email", "isActive", "fires", "message", "expiresAt", "telegram",
];
const OF_SIGNAL = [...OF_CHANGES, "mint", "field", "kind", "where", "comparedWith", "direction"];

/** The calls of accounts and of applications for an API key, all of them free. */
export abstract class AccountCalls {
  abstract send<Data>(call: Call<Data>, key?: string): Promise<Answer<Data>>;

  /** Send a call; return the data of its answer. */
  async data<Data>(call: Call<Data>): Promise<Data> {
    return (await this.send(call)).data;
  }

  /** Apply for an API key with `scopes` in addition to the read scopes. */
  async signUp(application: Signup): Promise<SignedUp> {
    known(application, OF_SIGNUP);
    return await this.data(open("public/beta-signup", application, true));
  }

  /** Confirm the e-mail of an application with the code that was e-mailed. */
  async confirmEmail(email: string, applicationSecret: string, code: string): Promise<ConfirmedEmail> {
    return await this.data(open("auth/confirm-email", { email, applicationSecret, code }));
  }

  /** Return the status of an application. */
  async applicationStatus(email: string, applicationSecret: string): Promise<ApplicationStanding> {
    return await this.data(open("auth/application-status", { email, applicationSecret }));
  }

  /** Exchange the secret of an approved application for its API key, once. */
  async exchangeSecret(email: string, applicationSecret: string): Promise<ExchangedKey> {
    return await this.data(open("auth/exchange-secret", { email, applicationSecret }, true));
  }

  /** Return the owner and the scopes of the API key. */
  async me(): Promise<KeyOwner> {
    return await this.data(free("GET", "/v1/me"));
  }

  /** Rotate the API key of the client; the old key stays valid for `overlap`. */
  async rotateKey(overlap: Overlap = "1h"): Promise<RotatedKey> {
    return await this.data(free("POST", "/v1/me/key/rotate", { overlap }, true));
  }

  /** Revoke the API key of the client at once. */
  async revokeKey(): Promise<RevokedKey> {
    return await this.data(free("DELETE", "/v1/me/key"));
  }

  /** Ask the administrators for scopes that the key lacks. */
  async askForScopes(scopes: readonly Scope[], motivation = ""): Promise<ScopesAsked> {
    return await this.data(free("POST", "/v1/me/key/scopes", { scopes, motivation }));
  }

  /** Return the credits of the account, and the credits that each key has spent this month. */
  async account(): Promise<AccountHoldings> {
    return await this.data(free("GET", "/v1/account"));
  }

  /** Lower the monthly cap of a key, or restrict the networks from which it is accepted. */
  async capKey(keyId: number, monthCreditsMax?: number, networks?: string[]): Promise<CappedKey> {
    const limits = { monthCreditsMax, networks };
    return await this.data(free("PATCH", `/v1/account/keys/${keyId}`, limits));
  }

  /** Move credits from a credit token into the account: `credits` of them, by default all. */
  async deposit(creditToken: string, credits?: number): Promise<CreditDeposit> {
    return await this.data(free("POST", "/v1/account/credits/deposit", { creditToken, credits }, true));
  }

  /** Move credits from the account to a new credit token: `credits` of them, by default all. */
  async withdraw(credits?: number): Promise<CreditWithdrawal> {
    return await this.data(free("POST", "/v1/account/credits/withdraw", { credits }, true));
  }

  /** Move all credits of the credit token to a new one. */
  async rotateCredits(): Promise<RotatedCredits> {
    return await this.data(free("POST", "/v1/credits/rotate", undefined, true));
  }

  /** Return the text that a wallet signs to claim the credits of its payment. */
  async claimChallenge(purchase: string, wallet: string): Promise<WalletChallenge> {
    return await this.data(free("POST", "/v1/credits/rotate/challenge", { purchase, wallet }));
  }

  /**
   * Move the credits of a payment to a new credit token, with the base58 signature of the wallet.
   */
  async claimCredits(
    purchase: string,
    wallet: string,
    challenge: string,
    signature: string,
  ): Promise<RotatedCredits> {
    const proof = { purchase, wallet, challenge, signature };
    return await this.data(free("POST", "/v1/credits/rotate", proof, true));
  }

  /** Return the wallets of the account. */
  async wallets(): Promise<LinkedWallets> {
    return await this.data(free("GET", "/v1/account/wallets"));
  }

  /** Return the text that a wallet signs to be linked to the account. */
  async walletChallenge(wallet: string): Promise<WalletChallenge> {
    return await this.data(free("POST", "/v1/account/wallets/challenge", { wallet }));
  }

  /** Link a wallet to the account, with its base58 signature of a challenge. */
  async linkWallet(wallet: string, challenge: string, signature: string): Promise<LinkedWallets> {
    return await this.data(free("POST", "/v1/account/wallets", { wallet, challenge, signature }));
  }

  /** Unlink a wallet. */
  async unlinkWallet(wallet: string): Promise<LinkedWallets> {
    return await this.data(free("DELETE", `/v1/account/wallets/${segment(wallet)}`));
  }

  /** Return the payments of the linked wallets, newest first. */
  payments(): PagedLines<PaymentsPage, WalletPayment> {
    return new PagedLines<PaymentsPage, WalletPayment>(
      (call) => this.send(call),
      (cursor) => ({ ...free("GET", "/v1/account/payments"), query: { limit: PAGE_MAX, cursor } }),
      (page) => page.payments,
    );
  }

  /** Return the watchlists of the account, without their mints. */
  async watchlists(): Promise<WatchlistLines> {
    return await this.data(free("GET", "/v1/groups"));
  }

  async makeWatchlist(name: string): Promise<FilledWatchlist> {
    return await this.data(free("POST", "/v1/groups", { name }, true));
  }

  async watchlist(groupId: number): Promise<FilledWatchlist> {
    return await this.data(free("GET", `/v1/groups/${groupId}`));
  }

  async renameWatchlist(groupId: number, name: string): Promise<FilledWatchlist> {
    return await this.data(free("PATCH", `/v1/groups/${groupId}`, { name }));
  }

  /** Delete a watchlist; return the other watchlists. */
  async deleteWatchlist(groupId: number): Promise<WatchlistLines> {
    return await this.data(free("DELETE", `/v1/groups/${groupId}`));
  }

  /** Add a mint to a watchlist. */
  async watch(groupId: number, mint: string): Promise<FilledWatchlist> {
    return await this.data(free("PUT", `/v1/groups/${groupId}/mints/${segment(mint)}`));
  }

  /** Remove a mint from a watchlist. */
  async unwatch(groupId: number, mint: string): Promise<FilledWatchlist> {
    return await this.data(free("DELETE", `/v1/groups/${groupId}/mints/${segment(mint)}`));
  }

  /** Return the signals of the account: its alerts. */
  async signals(): Promise<SignalRules> {
    return await this.data(free("GET", "/v1/signals"));
  }

  async makeSignal(signal: NewSignal): Promise<MadeSignal> {
    known(signal, OF_SIGNAL);
    return await this.data(free("POST", "/v1/signals", signal, true));
  }

  async signal(signalId: number): Promise<SignalRule> {
    return await this.data(free("GET", `/v1/signals/${signalId}`));
  }

  async changeSignal(signalId: number, changes: SignalChanges): Promise<SignalRule> {
    known(changes, OF_CHANGES);
    return await this.data(free("PATCH", `/v1/signals/${signalId}`, changes));
  }

  /** Delete a signal; return the other signals. */
  async deleteSignal(signalId: number): Promise<SignalRules> {
    return await this.data(free("DELETE", `/v1/signals/${signalId}`));
  }

  /** Return the firings of a signal, newest first. */
  signalEvents(signalId: number): PagedLines<SignalEventsPage, SignalEvent> {
    return new PagedLines<SignalEventsPage, SignalEvent>(
      (call) => this.send(call),
      (cursor) => ({ ...free("GET", `/v1/signals/${signalId}/events`), query: { limit: PAGE_MAX, cursor } }),
      (page) => page.events,
    );
  }

  /** Create a new webhook secret; the old one also signs for 24 hours. */
  async renewSignalSecret(signalId: number): Promise<MadeSignal> {
    return await this.data(free("POST", `/v1/signals/${signalId}/secret`, undefined, true));
  }

  /** Send a test notification of a signal. */
  async testSignal(signalId: number): Promise<SignalEvent> {
    return await this.data(free("POST", `/v1/signals/${signalId}/test`));
  }

  /** Return the keys that sign receipts, for `checkReceipt`. */
  async receiptKeys(): Promise<DidDocument> {
    return await this.data({ ...free<DidDocument>("GET", "/.well-known/did.json"), isEnveloped: false });
  }
}

function free<Data>(method: Method, path: string, body?: unknown, takesKey = false): Call<Data> {
  return { name: `${method} ${path}`, method, path, creditsMax: 0, takesKey, ...(body === undefined ? {} : { body }) };
}

/** Return the call of a path under /api: its answer has no envelope. */
function open<Data>(path: string, body: unknown, takesKey = false): Call<Data> {
  return { ...free<Data>("POST", `/api/${path}`, body, takesKey), isEnveloped: false };
}

function segment(text: string): string {
  return encodeURIComponent(text);
}
