import { known } from "./known.js";
import { PagedLines } from "./pages.js";
const PAGE_MAX = 100;
const OF_SIGNUP = ["email", "motivation", "userType", "scopes", "telegram", "twitter"];
const OF_SIGNAL = [
    "name", "mint", "field", "kind", "level", "margin", "percent", "windowS", "candles",
    "leastConfidence", "webhookUrl", "email", "isActive",
];
/** What an API key does, and how an agent comes to one. All of it is free. */
export class AccountCalls {
    /** Send a call; return the data of its answer. */
    async data(call) {
        return (await this.send(call)).data;
    }
    /** Apply for an API key; `scopes`: what it shall do beside reading. */
    async signUp(application) {
        known(application, OF_SIGNUP);
        return await this.data(open("public/beta-signup", application, true));
    }
    /** Confirm the mailbox of an application with the code that was sent there. */
    async confirmEmail(email, applicationSecret, code) {
        return await this.data(open("auth/confirm-email", { email, applicationSecret, code }));
    }
    /** How far an application is. */
    async applicationStatus(email, applicationSecret) {
        return await this.data(open("auth/application-status", { email, applicationSecret }));
    }
    /** Exchange the secret of an approved application for its API key, once. */
    async exchangeSecret(email, applicationSecret) {
        return await this.data(open("auth/exchange-secret", { email, applicationSecret }, true));
    }
    /** Whose the API key is, and what it allows. */
    async me() {
        return await this.data(free("GET", "/v1/me"));
    }
    /** Another key like this one, which ends after `overlap`. */
    async rotateKey(overlap = "1h") {
        return await this.data(free("POST", "/v1/me/key/rotate", { overlap }, true));
    }
    /** End the key of this client at once. */
    async revokeKey() {
        return await this.data(free("DELETE", "/v1/me/key"));
    }
    /** Ask the administrators for scopes that the key lacks. */
    async askForScopes(scopes, motivation = "") {
        return await this.data(free("POST", "/v1/me/key/scopes", { scopes, motivation }));
    }
    /** Credits of the account, and what each key spends of them. */
    async account() {
        return await this.data(free("GET", "/v1/account"));
    }
    /** Lower what a key may spend in a calendar month. */
    async capKey(keyId, monthCreditsMax) {
        return await this.data(free("PATCH", `/v1/account/keys/${keyId}`, { monthCreditsMax }));
    }
    /** Move credits of a credit token into the account; all of them unless `credits` says how many. */
    async deposit(creditToken, credits) {
        return await this.data(free("POST", "/v1/account/credits/deposit", { creditToken, credits }, true));
    }
    /** Move credits of the account to a new credit token; all unless `credits` says how many. */
    async withdraw(credits) {
        return await this.data(free("POST", "/v1/account/credits/withdraw", { credits }, true));
    }
    /** Move all credits of the credit token to a new one. */
    async rotateCredits() {
        return await this.data(free("POST", "/v1/credits/rotate", undefined, true));
    }
    /** The text by whose signature a wallet claims what its payment bought. */
    async claimChallenge(purchase, wallet) {
        return await this.data(free("POST", "/v1/credits/rotate/challenge", { purchase, wallet }));
    }
    /** Move what a payment bought to a new credit token, by the wallet's signature in base58. */
    async claimCredits(purchase, wallet, challenge, signature) {
        const proof = { purchase, wallet, challenge, signature };
        return await this.data(free("POST", "/v1/credits/rotate", proof, true));
    }
    /** The wallets of the account. */
    async wallets() {
        return await this.data(free("GET", "/v1/account/wallets"));
    }
    /** The text by whose signature a wallet is linked. */
    async walletChallenge(wallet) {
        return await this.data(free("POST", "/v1/account/wallets/challenge", { wallet }));
    }
    /** Link a wallet, by its signature of a challenge in base58. */
    async linkWallet(wallet, challenge, signature) {
        return await this.data(free("POST", "/v1/account/wallets", { wallet, challenge, signature }));
    }
    /** Unlink a wallet. */
    async unlinkWallet(wallet) {
        return await this.data(free("DELETE", `/v1/account/wallets/${segment(wallet)}`));
    }
    /** Payments of the linked wallets, the newest first. */
    payments() {
        return new PagedLines((call) => this.send(call), (cursor) => ({ ...free("GET", "/v1/account/payments"), query: { limit: PAGE_MAX, cursor } }), (page) => page.payments);
    }
    /** The watchlists of the account, without their mints. */
    async watchlists() {
        return await this.data(free("GET", "/v1/groups"));
    }
    async makeWatchlist(name) {
        return await this.data(free("POST", "/v1/groups", { name }, true));
    }
    async watchlist(groupId) {
        return await this.data(free("GET", `/v1/groups/${groupId}`));
    }
    async renameWatchlist(groupId, name) {
        return await this.data(free("PATCH", `/v1/groups/${groupId}`, { name }));
    }
    /** Delete a watchlist; return those that are left. */
    async deleteWatchlist(groupId) {
        return await this.data(free("DELETE", `/v1/groups/${groupId}`));
    }
    /** Put a mint on a watchlist. */
    async watch(groupId, mint) {
        return await this.data(free("PUT", `/v1/groups/${groupId}/mints/${segment(mint)}`));
    }
    /** Take a mint off a watchlist. */
    async unwatch(groupId, mint) {
        return await this.data(free("DELETE", `/v1/groups/${groupId}/mints/${segment(mint)}`));
    }
    /** The signals, alert rules, of the account. */
    async signals() {
        return await this.data(free("GET", "/v1/signals"));
    }
    async makeSignal(signal) {
        known(signal, OF_SIGNAL);
        return await this.data(free("POST", "/v1/signals", signal, true));
    }
    async signal(signalId) {
        return await this.data(free("GET", `/v1/signals/${signalId}`));
    }
    async changeSignal(signalId, changes) {
        known(changes, OF_SIGNAL);
        return await this.data(free("PATCH", `/v1/signals/${signalId}`, changes));
    }
    /** Delete a signal; return those that are left. */
    async deleteSignal(signalId) {
        return await this.data(free("DELETE", `/v1/signals/${signalId}`));
    }
    /** What a signal has fired, the newest first. */
    signalEvents(signalId) {
        return new PagedLines((call) => this.send(call), (cursor) => ({ ...free("GET", `/v1/signals/${signalId}/events`), query: { limit: PAGE_MAX, cursor } }), (page) => page.events);
    }
    /** Another webhook secret; for 24 hours both sign. */
    async renewSignalSecret(signalId) {
        return await this.data(free("POST", `/v1/signals/${signalId}/secret`));
    }
    /** Send a test of a signal. */
    async testSignal(signalId) {
        return await this.data(free("POST", `/v1/signals/${signalId}/test`));
    }
}
function free(method, path, body, takesKey = false) {
    return { name: `${method} ${path}`, method, path, creditsMax: 0, takesKey, ...(body === undefined ? {} : { body }) };
}
/** A call under /api: its answers have no envelope. */
function open(path, body, takesKey = false) {
    return { ...free("POST", `/api/${path}`, body, takesKey), isEnveloped: false };
}
function segment(text) {
    return encodeURIComponent(text);
}
