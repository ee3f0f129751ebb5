/** Spending the credits that a wallet has bought by signing: sign-in-with-x of x402, by Sign-In With Solana. */
import { WillNotPayError } from "./errors.js";
import { base58 } from "./keypair.js";
const HEADER = "SIGN-IN-WITH-X";
const EXTENSION = "sign-in-with-x";
const TYPE = "ed25519";
const VERSION = "1";
const FIELDS = ["domain", "uri", "version", "nonce", "issuedAt", "statement"];
const LINE = /^[ -~]{1,500}$/; // no field may write a line of the text by itself
const CHAIN = /^solana:([1-9A-HJ-NP-Za-km-z]{32})$/;
/** Answers the challenge of a 402 for the path that was called, and no other one. */
export class WalletSignIn {
    static header = HEADER;
    #wallet;
    constructor(wallet) {
        this.#wallet = wallet;
    }
    /** Return SIGN-IN-WITH-X for a call of `url`. Throws WillNotPayError. */
    async sign(challenge, url) {
        const { info } = challenge;
        const expected = `${url.origin}${url.pathname}`;
        if (info.domain !== url.host || info.uri !== expected || info.version !== VERSION) {
            throw new WillNotPayError(`expected a challenge for ${expected}; was for ${String(info.uri).slice(0, 200)}`);
        }
        const fields = Object.fromEntries(FIELDS.map((name) => [name, info[name]]));
        if (!Object.values(fields).every((text) => typeof text === "string" && LINE.test(text))) {
            throw new WillNotPayError("expected a challenge whose fields are lines of printable ASCII");
        }
        const chain = challenge.supportedChains.find((each) => each.type === TYPE && CHAIN.test(each.chainId));
        if (chain === undefined)
            throw new WillNotPayError("expected a challenge for a Solana wallet");
        const { address } = this.#wallet;
        const text = `${fields.domain} wants you to sign in with your Solana account:\n${address}\n\n` +
            `${fields.statement}\n\nURI: ${fields.uri}\nVersion: ${fields.version}\n` +
            `Chain ID: ${chain.chainId.slice("solana:".length)}\nNonce: ${fields.nonce}\nIssued At: ${fields.issuedAt}`;
        const signature = base58(await this.#wallet.signMessage(new TextEncoder().encode(text)));
        return btoa(JSON.stringify({ ...fields, address, chainId: chain.chainId, type: TYPE, signature }));
    }
}
/** Return the challenge of a 402, in its header or else in its body; null if it has none. */
export async function challengeOf(response) {
    if (response.status !== 402)
        return null;
    try {
        const header = response.headers.get("PAYMENT-REQUIRED");
        const demand = header === null ? (await response.clone().json()).error.details : JSON.parse(atob(header));
        const challenge = demand.extensions[EXTENSION];
        return challenge?.info !== undefined && Array.isArray(challenge.supportedChains) ? challenge : null;
    }
    catch {
        return null;
    }
}
