import { known } from "./known.js";
import { PagedLines } from "./pages.js";
const PAGE_MAX = 100;
const OF_SIGNUP = ["email", "motivation", "userType", "scopes", "telegram", "twitter"];
const OF_SIGNAL = [
    "name", "mint", "field", "kind", "level", "margin", "percent", "windowS", "candles",
    "leastConfidence", "webhookUrl", "email", "isActive", "fires", "comparedWith", "direction",
    "message", "expiresAt", "telegram",
];
/** Calls of API keys and of signing up for one, all of them free. */
export class AccountCalls {
    /** Send a call; return the data of its answer. */
    async data(call) {
        return (await this.send(call)).data;
    }
    /** Apply for an API key with `scopes` beside the read scopes. */
    async signUp(application) {
        known(application, OF_SIGNUP);
        return await this.data(open("public/beta-signup", application, true));
    }
    /** Confirm the mailbox of an application with the code sent to it. */
    async confirmEmail(email, applicationSecret, code) {
        return await this.data(open("auth/confirm-email", { email, applicationSecret, code }));
    }
    /** The status of an application. */
    async applicationStatus(email, applicationSecret) {
        return await this.data(open("auth/application-status", { email, applicationSecret }));
    }
    /** Exchange the secret of an approved application for its API key, once. */
    async exchangeSecret(email, applicationSecret) {
        return await this.data(open("auth/exchange-secret", { email, applicationSecret }, true));
    }
    /** The owner and the scopes of the API key. */
    async me() {
        return await this.data(free("GET", "/v1/me"));
    }
    /** Rotate this key; the old one ends after `overlap`. */
    async rotateKey(overlap = "1h") {
        return await this.data(free("POST", "/v1/me/key/rotate", { overlap }, true));
    }
    /** Revoke the key of this client at once. */
    async revokeKey() {
        return await this.data(free("DELETE", "/v1/me/key"));
    }
    /** Ask the administrators for scopes that the key lacks. */
    async askForScopes(scopes, motivation = "") {
        return await this.data(free("POST", "/v1/me/key/scopes", { scopes, motivation }));
    }
    /** The credits of the account, and the spending of each key. */
    async account() {
        return await this.data(free("GET", "/v1/account"));
    }
    /** Lower the monthly cap of a key. */
    async capKey(keyId, monthCreditsMax) {
        return await this.data(free("PATCH", `/v1/account/keys/${keyId}`, { monthCreditsMax }));
    }
    /** Move `credits` of a credit token into the account, by default all of them. */
    async deposit(creditToken, credits) {
        return await this.data(free("POST", "/v1/account/credits/deposit", { creditToken, credits }, true));
    }
    /** Move `credits` of the account to a new credit token, by default all of them. */
    async withdraw(credits) {
        return await this.data(free("POST", "/v1/account/credits/withdraw", { credits }, true));
    }
    /** Move all credits of the credit token to a new one. */
    async rotateCredits() {
        return await this.data(free("POST", "/v1/credits/rotate", undefined, true));
    }
    /** The text that a wallet signs to claim the credits of its payment. */
    async claimChallenge(purchase, wallet) {
        return await this.data(free("POST", "/v1/credits/rotate/challenge", { purchase, wallet }));
    }
    /** Move the credits of a payment to a new credit token, by the wallet's signature in base58. */
    async claimCredits(purchase, wallet, challenge, signature) {
        const proof = { purchase, wallet, challenge, signature };
        return await this.data(free("POST", "/v1/credits/rotate", proof, true));
    }
    /** The wallets of the account. */
    async wallets() {
        return await this.data(free("GET", "/v1/account/wallets"));
    }
    /** The text that a wallet signs to be linked. */
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
    /** Payments of the linked wallets, newest first. */
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
    /** Delete a watchlist; return the others. */
    async deleteWatchlist(groupId) {
        return await this.data(free("DELETE", `/v1/groups/${groupId}`));
    }
    /** Add a mint to a watchlist. */
    async watch(groupId, mint) {
        return await this.data(free("PUT", `/v1/groups/${groupId}/mints/${segment(mint)}`));
    }
    /** Remove a mint from a watchlist. */
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
    /** Delete a signal; return the others. */
    async deleteSignal(signalId) {
        return await this.data(free("DELETE", `/v1/signals/${signalId}`));
    }
    /** The firings of a signal, newest first. */
    signalEvents(signalId) {
        return new PagedLines((call) => this.send(call), (cursor) => ({ ...free("GET", `/v1/signals/${signalId}/events`), query: { limit: PAGE_MAX, cursor } }), (page) => page.events);
    }
    /** Rotate the webhook secret; both secrets sign for 24 hours. */
    async renewSignalSecret(signalId) {
        return await this.data(free("POST", `/v1/signals/${signalId}/secret`));
    }
    /** Send a test notification of a signal. */
    async testSignal(signalId) {
        return await this.data(free("POST", `/v1/signals/${signalId}/test`));
    }
    /** The keys of receipts, which `checkReceipt` takes. */
    async receiptKeys() {
        return await this.data({ ...free("GET", "/.well-known/did.json"), isEnveloped: false });
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
