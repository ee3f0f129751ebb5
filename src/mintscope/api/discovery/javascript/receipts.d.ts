/** Signed receipts of payments, checked: what was bought, by whom, when, by which transaction. */
/** A receipt is not one of the service; the message says why. */
export declare class ForgedReceiptError extends Error {
}
/** The keys of a service, `/.well-known/did.json`; those of replaced secrets are among them. */
export interface DidDocument {
    readonly id: string;
    readonly verificationMethod: readonly {
        readonly id: string;
        readonly controller: string;
        readonly publicKeyJwk: {
            readonly kty: string;
            readonly crv: string;
            readonly x: string;
        };
    }[];
    readonly assertionMethod: readonly string[];
}
export interface ReceiptClaims {
    readonly version: number;
    /** CAIP-2. */
    readonly network: string;
    /** Of what was bought. */
    readonly resourceUrl: string;
    /** The wallet. */
    readonly payer: string;
    /** Unix seconds. */
    readonly issuedAt: number;
    /** Its signature, base58. */
    readonly transaction?: string;
}
/**
 * Return what `receipt`, a JWS, claims, if the service of `document` has signed it. Throws
 * ForgedReceiptError. Keep `Client.receiptKeys()` if receipts shall last for years.
 */
export declare function checkReceipt(receipt: string, document: DidDocument): Promise<ReceiptClaims>;
