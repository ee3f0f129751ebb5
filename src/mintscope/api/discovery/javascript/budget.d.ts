/** The most that calls may cost, in credits: asked before a call is sent. */
export declare class CreditBudget {
    readonly creditsPerCall: number;
    readonly creditsInAll: number;
    /** Credits of every call that was answered, and of those that may have been. */
    spent: number;
    constructor(most?: {
        creditsPerCall?: number;
        creditsInAll?: number;
    });
    /** Count `credits` as spent if that is allowed. Throws OverBudgetError. */
    reserve(credits: number): void;
    /** Count `credits` of what was reserved as unspent. */
    giveBack(credits: number): void;
}
