import type { Answer, Call } from "./call.ts";
import { PagedLines } from "./pages.ts";
import type { DidDocument } from "./receipts.ts";
import type { AccountHoldings, ApplicationStanding, CappedKey, ConfirmedEmail, CreditDeposit, CreditWithdrawal, ExchangedKey, FilledWatchlist, KeyOwner, LinkedWallets, MadeSignal, NewSignal, Overlap, PaymentsPage, RevokedKey, RotatedCredits, RotatedKey, Scope, ScopesAsked, SignalChanges, SignalEvent, SignalEventsPage, SignalRule, SignalRules, SignedUp, Signup, WalletChallenge, WalletPayment, WatchlistLines } from "./types.ts";
/** Calls of API keys and of signing up for one, all of them free. */
export declare abstract class AccountCalls {
    abstract send<Data>(call: Call<Data>, key?: string): Promise<Answer<Data>>;
    /** Send a call; return the data of its answer. */
    data<Data>(call: Call<Data>): Promise<Data>;
    /** Apply for an API key with `scopes` beside the read scopes. */
    signUp(application: Signup): Promise<SignedUp>;
    /** Confirm the mailbox of an application with the code sent to it. */
    confirmEmail(email: string, applicationSecret: string, code: string): Promise<ConfirmedEmail>;
    /** The status of an application. */
    applicationStatus(email: string, applicationSecret: string): Promise<ApplicationStanding>;
    /** Exchange the secret of an approved application for its API key, once. */
    exchangeSecret(email: string, applicationSecret: string): Promise<ExchangedKey>;
    /** The owner and the scopes of the API key. */
    me(): Promise<KeyOwner>;
    /** Rotate this key; the old one ends after `overlap`. */
    rotateKey(overlap?: Overlap): Promise<RotatedKey>;
    /** Revoke the key of this client at once. */
    revokeKey(): Promise<RevokedKey>;
    /** Ask the administrators for scopes that the key lacks. */
    askForScopes(scopes: readonly Scope[], motivation?: string): Promise<ScopesAsked>;
    /** The credits of the account, and the spending of each key. */
    account(): Promise<AccountHoldings>;
    /** Lower the monthly cap of a key. */
    capKey(keyId: number, monthCreditsMax: number): Promise<CappedKey>;
    /** Move `credits` of a credit token into the account, by default all of them. */
    deposit(creditToken: string, credits?: number): Promise<CreditDeposit>;
    /** Move `credits` of the account to a new credit token, by default all of them. */
    withdraw(credits?: number): Promise<CreditWithdrawal>;
    /** Move all credits of the credit token to a new one. */
    rotateCredits(): Promise<RotatedCredits>;
    /** The text that a wallet signs to claim the credits of its payment. */
    claimChallenge(purchase: string, wallet: string): Promise<WalletChallenge>;
    /** Move the credits of a payment to a new credit token, by the wallet's signature in base58. */
    claimCredits(purchase: string, wallet: string, challenge: string, signature: string): Promise<RotatedCredits>;
    /** The wallets of the account. */
    wallets(): Promise<LinkedWallets>;
    /** The text that a wallet signs to be linked. */
    walletChallenge(wallet: string): Promise<WalletChallenge>;
    /** Link a wallet, by its signature of a challenge in base58. */
    linkWallet(wallet: string, challenge: string, signature: string): Promise<LinkedWallets>;
    /** Unlink a wallet. */
    unlinkWallet(wallet: string): Promise<LinkedWallets>;
    /** Payments of the linked wallets, newest first. */
    payments(): PagedLines<PaymentsPage, WalletPayment>;
    /** The watchlists of the account, without their mints. */
    watchlists(): Promise<WatchlistLines>;
    makeWatchlist(name: string): Promise<FilledWatchlist>;
    watchlist(groupId: number): Promise<FilledWatchlist>;
    renameWatchlist(groupId: number, name: string): Promise<FilledWatchlist>;
    /** Delete a watchlist; return the others. */
    deleteWatchlist(groupId: number): Promise<WatchlistLines>;
    /** Add a mint to a watchlist. */
    watch(groupId: number, mint: string): Promise<FilledWatchlist>;
    /** Remove a mint from a watchlist. */
    unwatch(groupId: number, mint: string): Promise<FilledWatchlist>;
    /** The signals, alert rules, of the account. */
    signals(): Promise<SignalRules>;
    makeSignal(signal: NewSignal): Promise<MadeSignal>;
    signal(signalId: number): Promise<SignalRule>;
    changeSignal(signalId: number, changes: SignalChanges): Promise<SignalRule>;
    /** Delete a signal; return the others. */
    deleteSignal(signalId: number): Promise<SignalRules>;
    /** The firings of a signal, newest first. */
    signalEvents(signalId: number): PagedLines<SignalEventsPage, SignalEvent>;
    /** Rotate the webhook secret; both secrets sign for 24 hours. */
    renewSignalSecret(signalId: number): Promise<MadeSignal>;
    /** Send a test notification of a signal. */
    testSignal(signalId: number): Promise<SignalEvent>;
    /** The keys of receipts, which `checkReceipt` takes. */
    receiptKeys(): Promise<DidDocument>;
}
