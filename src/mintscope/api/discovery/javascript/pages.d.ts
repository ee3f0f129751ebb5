import type { Answer, Call } from "./call.ts";
/** A page that says where the next one begins. */
export interface Page {
    nextCursor: string | null;
}
/**
 * Every line of a listing: iterate over it, or over its `pages`. A page is asked for, and paid, when
 * its first line is needed; a budget bounds how many.
 */
export declare class PagedLines<P extends Page, Line> implements AsyncIterable<Line> {
    #private;
    constructor(send: (call: Call<P>) => Promise<Answer<P>>, callAt: (cursor: string | undefined) => Call<P>, lines: (page: P) => readonly Line[]);
    [Symbol.asyncIterator](): AsyncGenerator<Line, void, undefined>;
    /** Yield each page, from `cursor` on: the `nextCursor` of one, undefined for the first. */
    pages(cursor?: string): AsyncGenerator<P, void, undefined>;
    /** Return the first page. */
    first(): Promise<P>;
}
