import type { Answer, Call } from "./call.ts";
import { PagedLines } from "./pages.ts";
import type { AccountHoldings, ApplicationStanding, CappedKey, ConfirmedEmail, CreditDeposit, CreditWithdrawal, ExchangedKey, FilledWatchlist, KeyOwner, LinkedWallets, MadeSignal, NewSignal, Overlap, PaymentsPage, RevokedKey, RotatedCredits, RotatedKey, Scope, ScopesAsked, SignalChanges, SignalEvent, SignalEventsPage, SignalRule, SignalRules, SignedUp, Signup, WalletChallenge, WalletPayment, WatchlistLines } from "./types.ts";
/** What an API key does, and how an agent comes to one. All of it is free. */
export declare abstract class AccountCalls {
    abstract send<Data>(call: Call<Data>, key?: string): Promise<Answer<Data>>;
    /** Send a call; return the data of its answer. */
    data<Data>(call: Call<Data>): Promise<Data>;
    /** Apply for an API key; `scopes`: what it shall do beside reading. */
    signUp(application: Signup): Promise<SignedUp>;
    /** Confirm the mailbox of an application with the code that was sent there. */
    confirmEmail(email: string, applicationSecret: string, code: string): Promise<ConfirmedEmail>;
    /** How far an application is. */
    applicationStatus(email: string, applicationSecret: string): Promise<ApplicationStanding>;
    /** Exchange the secret of an approved application for its API key, once. */
    exchangeSecret(email: string, applicationSecret: string): Promise<ExchangedKey>;
    /** Whose the API key is, and what it allows. */
    me(): Promise<KeyOwner>;
    /** Another key like this one, which ends after `overlap`. */
    rotateKey(overlap?: Overlap): Promise<RotatedKey>;
    /** End the key of this client at once. */
    revokeKey(): Promise<RevokedKey>;
    /** Ask the administrators for scopes that the key lacks. */
    askForScopes(scopes: readonly Scope[], motivation?: string): Promise<ScopesAsked>;
    /** Credits of the account, and what each key spends of them. */
    account(): Promise<AccountHoldings>;
    /** Lower what a key may spend in a calendar month. */
    capKey(keyId: number, monthCreditsMax: number): Promise<CappedKey>;
    /** Move credits of a credit token into the account; all of them unless `credits` says how many. */
    deposit(creditToken: string, credits?: number): Promise<CreditDeposit>;
    /** Move credits of the account to a new credit token; all unless `credits` says how many. */
    withdraw(credits?: number): Promise<CreditWithdrawal>;
    /** Move all credits of the credit token to a new one. */
    rotateCredits(): Promise<RotatedCredits>;
    /** The text by whose signature a wallet claims what its payment bought. */
    claimChallenge(purchase: string, wallet: string): Promise<WalletChallenge>;
    /** Move what a payment bought to a new credit token, by the wallet's signature in base58. */
    claimCredits(purchase: string, wallet: string, challenge: string, signature: string): Promise<RotatedCredits>;
    /** The wallets of the account. */
    wallets(): Promise<LinkedWallets>;
    /** The text by whose signature a wallet is linked. */
    walletChallenge(wallet: string): Promise<WalletChallenge>;
    /** Link a wallet, by its signature of a challenge in base58. */
    linkWallet(wallet: string, challenge: string, signature: string): Promise<LinkedWallets>;
    /** Unlink a wallet. */
    unlinkWallet(wallet: string): Promise<LinkedWallets>;
    /** Payments of the linked wallets, the newest first. */
    payments(): PagedLines<PaymentsPage, WalletPayment>;
    /** The watchlists of the account, without their mints. */
    watchlists(): Promise<WatchlistLines>;
    makeWatchlist(name: string): Promise<FilledWatchlist>;
    watchlist(groupId: number): Promise<FilledWatchlist>;
    renameWatchlist(groupId: number, name: string): Promise<FilledWatchlist>;
    /** Delete a watchlist; return those that are left. */
    deleteWatchlist(groupId: number): Promise<WatchlistLines>;
    /** Put a mint on a watchlist. */
    watch(groupId: number, mint: string): Promise<FilledWatchlist>;
    /** Take a mint off a watchlist. */
    unwatch(groupId: number, mint: string): Promise<FilledWatchlist>;
    /** The signals, alert rules, of the account. */
    signals(): Promise<SignalRules>;
    makeSignal(signal: NewSignal): Promise<MadeSignal>;
    signal(signalId: number): Promise<SignalRule>;
    changeSignal(signalId: number, changes: SignalChanges): Promise<SignalRule>;
    /** Delete a signal; return those that are left. */
    deleteSignal(signalId: number): Promise<SignalRules>;
    /** What a signal has fired, the newest first. */
    signalEvents(signalId: number): PagedLines<SignalEventsPage, SignalEvent>;
    /** Another webhook secret; for 24 hours both sign. */
    renewSignalSecret(signalId: number): Promise<MadeSignal>;
    /** Send a test of a signal. */
    testSignal(signalId: number): Promise<SignalEvent>;
}
