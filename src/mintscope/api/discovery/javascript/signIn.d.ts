/** Spending the credits that a wallet has bought by signing: sign-in-with-x of x402, by Sign-In With Solana. */
declare const FIELDS: readonly ["domain", "uri", "version", "nonce", "issuedAt", "statement"];
/** A wallet that signs texts: an adapter of a browser, or `keypairWallet`. */
export interface MessageSigner {
    /** Base58. */
    readonly address: string;
    /** Return the 64 bytes of its Ed25519 signature of `message`. */
    signMessage(message: Uint8Array): Promise<Uint8Array>;
}
type Info = Readonly<Record<(typeof FIELDS)[number], string>>;
/** The text of a 402 that a wallet signs. */
export interface Challenge {
    readonly info: Info;
    readonly supportedChains: readonly {
        readonly chainId: string;
        readonly type: string;
    }[];
}
/** Answers the challenge of a 402 for the path that was called, and no other one. */
export declare class WalletSignIn {
    #private;
    static readonly header = "SIGN-IN-WITH-X";
    constructor(wallet: MessageSigner);
    /** Return SIGN-IN-WITH-X for a call of `url`. Throws WillNotPayError. */
    sign(challenge: Challenge, url: URL): Promise<string>;
}
/** Return the challenge of a 402, in its header or else in its body; null if it has none. */
export declare function challengeOf(response: Response): Promise<Challenge | null>;
export {};
