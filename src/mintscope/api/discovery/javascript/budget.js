import { OverBudgetError } from "./errors.js";
/** The most that calls may cost, in credits: asked before a call is sent. */
export class CreditBudget {
    creditsPerCall;
    creditsInAll;
    /** Credits of every call that was answered, and of those that may have been. */
    spent = 0;
    constructor(most = {}) {
        this.creditsPerCall = most.creditsPerCall ?? Infinity;
        this.creditsInAll = most.creditsInAll ?? Infinity;
    }
    /** Count `credits` as spent if that is allowed. Throws OverBudgetError. */
    reserve(credits) {
        if (credits > this.creditsPerCall) {
            throw new OverBudgetError(`expected a call of at most ${this.creditsPerCall} credits; this one may cost ${credits}`);
        }
        if (credits > 0 && this.spent + credits > this.creditsInAll) {
            throw new OverBudgetError(`expected at most ${this.creditsInAll} credits in all; ${this.spent} are spent,` +
                ` this call may cost ${credits}`);
        }
        this.spent += credits;
    }
    /** Count `credits` of what was reserved as unspent. */
    giveBack(credits) {
        this.spent -= credits;
    }
}
