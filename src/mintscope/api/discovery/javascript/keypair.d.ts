/**
 * Return the 64 bytes of a Solana keypair, private key first, as a file of `solana-keygen` or the
 * export of a wallet has them. Throws an Error that shows nothing of `text`.
 *
 * `createKeyPairSignerFromBytes` of `@solana/kit` makes a signer of them.
 */
export declare function parseKeypair(text: string): Uint8Array;
