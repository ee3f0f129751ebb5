/** A stream while it is wanted: events become reports, a lost connection is opened again. */
import { ClientError, OverBudgetError, RefusedError, UnreachableError, UnreadableError, refused } from "./errors.js";
import { EventReader } from "./events.js";
import { SocketTexts } from "./socket.js";
import { Attempt, sleep } from "./transport.js";
const SILENCE_MS_MAX = 45_000; // there is a heartbeat every 15 s
const SOCKET_SILENCE_MS_MAX = 75_000; // its pings are not seen: a minute begins every 60 s
const LEAVE_AFTER_MS = 40_000; // of a minute after which none may be taken; then comes a heartbeat
/** Reasons that stay, with the status and code of the refusal they are; any other passes. */
const ENDS = {
    insufficient_credits: [402, "INSUFFICIENT_CREDITS"],
    key_cap_reached: [402, "KEY_CAP_REACHED"],
    credential_refused: [401, "INVALID_TOKEN"],
    not_tracked: [404, "TOKEN_NOT_FOUND"],
    insufficient_data: [404, "INSUFFICIENT_DATA"],
};
/** Yield the report of each mint as it changes. Throws ClientError when the stream has ended. */
export async function* stream(transport, mints, options = {}) {
    const live = new LiveCall(transport, mints, options);
    try {
        for (;;) {
            try {
                yield* live.connection();
                throw new UnreachableError("the stream broke off", { mayBeCharged: false });
            }
            catch (failure) {
                if (!(failure instanceof ClientError))
                    throw failure;
                await sleep(live.waitMs(failure));
            }
        }
    }
    finally {
        live.release();
    }
}
class LiveCall {
    #transport;
    #call;
    #reader = new EventReader();
    #known = new Map();
    #attempt;
    #reserved = 0;
    #creditsLeft = null;
    #leaveAtMs = Infinity;
    constructor(transport, mints, options) {
        this.#transport = transport;
        this.#call = {
            name: "stream",
            method: "GET",
            path: "/v1/stream",
            query: { mints: mints.join(","), ...options },
            creditsMax: mints.length,
        };
        this.#attempt = newAttempt();
    }
    /** Open the stream, from where it was lost; yield its reports. */
    async *connection() {
        this.release();
        this.#reserve();
        this.#leaveAtMs = Infinity;
        this.#reader.restart();
        const socket = this.#transport.webSocket;
        yield* socket === undefined ? this.#events() : this.#messages(socket);
    }
    async *#events() {
        const silence = new AbortController();
        const watch = setTimeoutOf(silence);
        try {
            const headers = { Accept: "text/event-stream" };
            if (this.#reader.lastId !== null)
                headers["Last-Event-ID"] = this.#reader.lastId;
            const response = await this.#transport.open(this.#call, newAttempt(), { headers, signal: silence.signal });
            const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
            if (reader === undefined)
                throw new UnreadableError("expected a stream of events");
            try {
                for (;;) {
                    const { done, value } = await reader.read().catch((cause) => {
                        throw new UnreachableError(`the stream was lost: ${String(cause)}`, { cause, mayBeCharged: false });
                    });
                    if (done)
                        return;
                    watch.refresh();
                    yield* this.#feed(value);
                }
            }
            finally {
                await reader.cancel().catch(() => undefined);
            }
        }
        finally {
            watch.clear();
            silence.abort();
        }
    }
    async *#messages(kind) {
        const { url, token } = this.#transport.socketOf(this.#call);
        const since = this.#reader.lastId === null ? {} : { lastEventId: this.#reader.lastId };
        const texts = new SocketTexts(new kind(url), JSON.stringify({ type: "auth", ...token, ...since }));
        try {
            for (;;) {
                const text = await texts.next(Math.min(SOCKET_SILENCE_MS_MAX, this.#leaveAtMs - performance.now()));
                if (text === null)
                    return;
                if (text !== undefined)
                    yield* this.#take(messageOf(text, this.#reader));
                else if (performance.now() < this.#leaveAtMs)
                    return; // silence: it is lost
                this.#expectTime();
            }
        }
        finally {
            texts.close();
        }
    }
    /** Return how long to wait before the stream is opened again, or throw why it is not. */
    waitMs(failure) {
        const isEnd = failure instanceof RefusedError || failure instanceof UnreachableError;
        if (!isEnd)
            throw failure;
        return Math.max(this.#attempt.waitMs(failure, this.#transport.patienceMs), this.#reader.retryMs);
    }
    /** Give back what was reserved for a minute that has not begun. */
    release() {
        this.#transport.budget.giveBack(this.#reserved);
        this.#reserved = 0;
    }
    #reserve() {
        this.#transport.budget.reserve(this.#call.creditsMax);
        this.#reserved = this.#call.creditsMax;
    }
    *#feed(text) {
        for (const event of this.#reader.feed(text))
            yield* this.#take(event);
        this.#expectTime();
    }
    *#take(event) {
        this.#attempt = newAttempt(); // it speaks: patience begins again
        const report = this.#hear(event);
        if (report !== null)
            yield report;
    }
    #expectTime() {
        if (performance.now() >= this.#leaveAtMs) {
            throw new OverBudgetError("expected credits for another minute in the budget; none is left");
        }
    }
    #hear(event) {
        const data = parse(event);
        if (event.name === "minute")
            this.#begin(Number(data["credits"]), Number(data["creditsRemaining"]));
        else if (event.name === "snapshot")
            return this.#report(data, true);
        else if (event.name === "update")
            return this.#report(data, false);
        else if (event.name === "end")
            this.#end(data);
        return null;
    }
    #begin(credits, left) {
        this.#transport.budget.giveBack(this.#reserved - credits);
        this.#reserved = 0;
        this.#creditsLeft = left;
        try {
            this.#reserve();
        }
        catch (failure) {
            if (!(failure instanceof OverBudgetError))
                throw failure;
            this.#leaveAtMs = performance.now() + LEAVE_AFTER_MS;
        }
    }
    #report(told, isWhole) {
        const token = String(told["token"]);
        const before = this.#known.get(token);
        if (!isWhole && before === undefined)
            throw new UnreadableError("expected a snapshot before an update");
        const whole = isWhole || before === undefined ? told : merged(before, told);
        this.#known.set(token, whole);
        const { slot, ...report } = whole;
        return { slot: Number(slot), report: report, creditsLeft: this.#creditsLeft };
    }
    #end(data) {
        this.#transport.budget.giveBack(Number(data["creditsReturned"] ?? 0));
        const reason = String(data["reason"]);
        const [status, code] = ENDS[reason] ?? [503, "SERVICE_UNAVAILABLE"];
        const message = `${reason}: ${String(data["message"])}`;
        throw refused({ status, code, message, requestId: null, retryAfterMs: null });
    }
}
function newAttempt() {
    return new Attempt("", undefined, performance.now());
}
/** Return the event of a message, and note what it says of coming back. Throws RefusedError for an error. */
function messageOf(text, reader) {
    const told = fieldsOf(text) ?? {};
    const { type, id, retryMs, data } = told;
    if (type === "error") {
        const error = isFields(told["error"]) ? told["error"] : {};
        const wait = told["retryAfterS"];
        throw refused({
            status: Number(told["status"]),
            code: String(error["code"]),
            message: String(error["message"]),
            requestId: null,
            retryAfterMs: typeof wait === "number" ? wait * 1000 : null,
        });
    }
    if (typeof id === "string")
        reader.lastId = id;
    if (typeof retryMs === "number")
        reader.retryMs = retryMs;
    if (typeof type !== "string")
        throw new UnreadableError("expected a message with a type");
    return { name: type, data: JSON.stringify(data) };
}
function parse(event) {
    const data = fieldsOf(event.data);
    if (data === null)
        throw new UnreadableError(`expected an event ${event.name} with an object`);
    return data;
}
function fieldsOf(text) {
    try {
        const data = JSON.parse(text);
        return isFields(data) ? data : null;
    }
    catch {
        return null;
    }
}
/** Return `before` with the fields of the update in its place. */
function merged(before, told) {
    const whole = { ...before };
    for (const [name, value] of Object.entries(told)) {
        const old = whole[name];
        whole[name] = isFields(old) && isFields(value) ? merged(old, value) : value;
    }
    return whole;
}
function isFields(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}
/** Abort where nothing comes for too long. */
function setTimeoutOf(silence) {
    const start = () => setTimeout(() => silence.abort(new Error("nothing came")), SILENCE_MS_MAX);
    let timer = start();
    return {
        refresh: () => {
            clearTimeout(timer);
            timer = start();
        },
        clear: () => clearTimeout(timer),
    };
}
