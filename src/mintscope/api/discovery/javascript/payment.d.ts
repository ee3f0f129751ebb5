/** One way to pay, of the `accepts` of an x402 demand. */
export interface Offer {
    scheme: string;
    network: string;
    asset: string;
    amount: string;
    payTo: string;
    maxTimeoutSeconds: number;
    extra: Record<string, unknown>;
}
/** A demand of x402 version 2, as PAYMENT-REQUIRED holds it. */
export interface Demand {
    x402Version: number;
    accepts: Offer[];
    resource?: unknown;
    [field: string]: unknown;
}
/** The only asset and payee that are ever paid, and how much: learned from the seller, not from its answers. */
export interface Pin {
    network: string;
    asset: string;
    payTo: string;
    /** The most that one payment may be, in atoms of the asset. */
    atomsPerPayment: bigint;
    /** The most that all may be together. */
    atomsInAll: bigint;
}
/** Signs payments: any x402 client, or a wallet of your own. */
export interface Signer {
    /** Return the value of PAYMENT-SIGNATURE that pays `offer`, the one that is pinned. */
    sign(demand: Demand, offer: Offer, header: string): Promise<string>;
}
/** Checks each demand against the pin before anything is signed. */
export declare class Payer {
    #private;
    /** Atoms of every payment that was signed. */
    spent: bigint;
    constructor(pin: Pin, signer: Signer);
    /** Return PAYMENT-SIGNATURE for the demand of PAYMENT-REQUIRED. Throws WillNotPayError, OverBudgetError. */
    pay(header: string): Promise<string>;
}
/** Return the signed receipt in PAYMENT-RESPONSE, a JWS; null if there is none. */
export declare function receiptOf(header: string | null): string | null;
