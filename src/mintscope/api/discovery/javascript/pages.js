/**
 * Every line of a listing: iterate over it, or over its `pages`. A page is asked for, and paid, when
 * its first line is needed; a budget bounds how many.
 */
export class PagedLines {
    #send;
    #callAt;
    #lines;
    constructor(send, callAt, lines) {
        this.#send = send;
        this.#callAt = callAt;
        this.#lines = lines;
    }
    async *[Symbol.asyncIterator]() {
        for await (const page of this.pages())
            yield* this.#lines(page);
    }
    /** Yield each page, from `cursor` on: the `nextCursor` of one, undefined for the first. */
    async *pages(cursor) {
        for (let at = cursor;;) {
            const page = (await this.#send(this.#callAt(at))).data;
            yield page;
            if (page.nextCursor === null)
                return;
            at = page.nextCursor;
        }
    }
    /** Return the first page. */
    async first() {
        return (await this.#send(this.#callAt(undefined))).data;
    }
}
