import type { MessageSigner } from "./signIn.ts";
/**
 * Return the 64 bytes of a Solana keypair, private key first, as a file of `solana-keygen` or the
 * export of a wallet has them. Throws an Error that shows nothing of `text`.
 *
 * `createKeyPairSignerFromBytes` of `@solana/kit` makes a signer of them.
 */
export declare function parseKeypair(text: string): Uint8Array;
/**
 * Return a wallet of the 64 bytes of a keypair that signs texts, for `WalletSignIn`: by the Web
 * Crypto of Node or the browser.
 */
export declare function keypairWallet(keypair: Uint8Array): Promise<MessageSigner>;
/** Return `bytes` as base58. */
export declare function base58(bytes: Uint8Array): string;
