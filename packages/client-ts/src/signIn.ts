/**
 * Sign-in with a wallet: a signature spends the credits that the wallet has bought (sign-in-with-x
 * of x402, Sign-In With Solana).
 */

import { WillNotPayError, notSigned } from "./errors.ts";
import { base58 } from "./keypair.ts";

const HEADER = "SIGN-IN-WITH-X";
const EXTENSION = "sign-in-with-x";
const TYPE = "ed25519";
const VERSION = "1";
const FIELDS = ["domain", "uri", "version", "nonce", "issuedAt", "statement"] as const;
const LINE = /^[ -~]{1,500}$/; // no line breaks: a field must not add a line to the signed text
const CHAIN = /^solana:([1-9A-HJ-NP-Za-km-z]{32})$/;

/** A wallet that signs texts: an adapter for a wallet of the browser, or `keypairWallet`. */
export interface MessageSigner {
  /** The address of the wallet, base58. */
  readonly address: string;
  /** Return the 64 bytes of the wallet's Ed25519 signature of `message`. */
  signMessage(message: Uint8Array): Promise<Uint8Array>;
}

type Info = Readonly<Record<(typeof FIELDS)[number], string>>;

/** The challenge of a 402, from which the text that a wallet signs is built. */
export interface Challenge {
  readonly info: Info;
  readonly supportedChains: readonly { readonly chainId: string; readonly type: string }[];
}

/** Signs the challenge of a 402 if the challenge is for the called path. */
export class WalletSignIn {
  static readonly header = HEADER;
  readonly #wallet: MessageSigner;

  constructor(wallet: MessageSigner) {
    this.#wallet = wallet;
  }

  /** Return the SIGN-IN-WITH-X header for a call of `url`. Throws WillNotPayError. */
  async sign(challenge: Challenge, url: URL): Promise<string> {
    const { info } = challenge;
    const expected = `${url.origin}${url.pathname}`;
    if (info.domain !== url.host || info.uri !== expected || info.version !== VERSION) {
      throw new WillNotPayError(`expected a challenge for ${expected}; was for ${String(info.uri).slice(0, 200)}`);
    }
    const fields = Object.fromEntries(FIELDS.map((name) => [name, info[name]])) as Info;
    if (!Object.values(fields).every((text) => typeof text === "string" && LINE.test(text))) {
      throw new WillNotPayError("expected a challenge whose fields are lines of printable ASCII");
    }
    const chain = challenge.supportedChains.find((each) => each.type === TYPE && CHAIN.test(each.chainId));
    if (chain === undefined) throw new WillNotPayError("expected a challenge for a Solana wallet");
    const { address } = this.#wallet;
    const text =
      `${fields.domain} wants you to sign in with your Solana account:\n${address}\n\n` +
      `${fields.statement}\n\nURI: ${fields.uri}\nVersion: ${fields.version}\n` +
      `Chain ID: ${chain.chainId.slice("solana:".length)}\nNonce: ${fields.nonce}\nIssued At: ${fields.issuedAt}`;
    const signature = base58(await this.#signature(text));
    return btoa(JSON.stringify({ ...fields, address, chainId: chain.chainId, type: TYPE, signature }));
  }

  async #signature(text: string): Promise<Uint8Array> {
    try {
      return await this.#wallet.signMessage(new TextEncoder().encode(text));
    } catch (cause) {
      throw notSigned(cause);
    }
  }
}

/** Return the challenge in PAYMENT-REQUIRED or, without it, in the body of a 402; null: none. */
export async function challengeOf(response: Response): Promise<Challenge | null> {
  if (response.status !== 402) return null;
  try {
    const header = response.headers.get("PAYMENT-REQUIRED");
    const demand = header === null ? (await response.clone().json()).error.details : JSON.parse(atob(header));
    const challenge = demand.extensions[EXTENSION];
    return challenge?.info !== undefined && Array.isArray(challenge.supportedChains) ? challenge : null;
  } catch {
    return null;
  }
}
