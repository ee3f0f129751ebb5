/** A stream of reports, which is opened again after a lost connection until it is closed. */

import type { Call } from "./call.ts";
import { ClientError, OverBudgetError, RefusedError, UnreachableError, UnreadableError, refused } from "./errors.ts";
import { EventReader, type ServerEvent } from "./events.ts";
import { SocketTexts } from "./socket.ts";
import { Attempt, type Transport, sleep } from "./transport.ts";
import type { LiveReport, Report, ReportOptions } from "./types.ts";

const SILENCE_MS_MAX = 45_000; // a connection without data is lost; heartbeats come every 15 s
// Each connection costs a minute, so the waits double until a connection lasts for this time after
// its first event
const STABLE_AFTER_MS = 45_000;
const SOCKET_SILENCE_MS_MAX = 75_000; // pings are not visible; a minute begins every 60 s
// If the budget has no room for the next minute, the stream ends after this time of the current
// minute
const LEAVE_AFTER_MS = 40_000;
// The consumer may be busy when a minute begins, so its event may be read late; but the minute began
// at most this time after the one before
const MINUTE_MS_MAX = 70_000;

/**
 * The reasons that end a stream, each with its HTTP status and code; after any other reason, the
 * stream is opened again.
 */
const ENDS: Record<string, [number, string]> = {
  insufficient_credits: [402, "INSUFFICIENT_CREDITS"],
  key_cap_reached: [402, "KEY_CAP_REACHED"],
  credential_refused: [401, "INVALID_TOKEN"],
  not_tracked: [404, "TOKEN_NOT_FOUND"],
  insufficient_data: [404, "INSUFFICIENT_DATA"],
};

type Fields = { [name: string]: unknown };

/** Yield the report of each mint when it changes. Throws the ClientError that ends the stream. */
export async function* stream(
  transport: Transport,
  mints: readonly string[],
  options: ReportOptions = {},
): AsyncGenerator<LiveReport, void, undefined> {
  const live = new LiveCall(transport, mints, options);
  try {
    for (;;) {
      try {
        yield* live.connection();
        throw new UnreachableError("the stream broke off", { mayBeCharged: true });
      } catch (failure) {
        if (!(failure instanceof ClientError)) throw failure;
        await sleep(live.waitMs(failure));
      }
    }
  } finally {
    live.release(false);
  }
}

class LiveCall {
  readonly #transport: Transport;
  readonly #call: Call<never>;
  readonly #reader = new EventReader();
  readonly #known = new Map<string, Fields>();
  /** The retries since the beginning, or since the loss of the last stable connection. */
  #attempt = newAttempt();
  /** When the first event of the connection arrived; null: none has arrived. */
  #openedAtMs: number | null = null;
  #reserved = 0;
  /** The reserved credits may have been spent from this time on. */
  #chargedFromMs = 0;
  #creditsLeft: number | null = null;
  #leaveAtMs = Infinity;
  /** When the current minute began; Infinity: none has begun. */
  #minuteAtMs = Infinity;
  /** Closes the connection at `leaveAtMs`. */
  #leaving: ReturnType<typeof setTimeout> | undefined;
  /** Closes the current connection. */
  #hangUp: () => void = () => undefined;

  constructor(transport: Transport, mints: readonly string[], options: ReportOptions) {
    this.#transport = transport;
    this.#call = {
      name: "stream",
      method: "GET",
      path: "/v1/stream",
      query: { mints: mints.join(","), ...options },
      creditsMax: mints.length,
    };
  }

  /** Open a connection, from the last received event; yield its reports until it is closed. */
  async *connection(): AsyncGenerator<LiveReport, void, undefined> {
    this.#reserve(0);
    this.#leaveAtMs = Infinity;
    this.#minuteAtMs = Infinity;
    this.#openedAtMs = null;
    this.#reader.restart();
    const socket = this.#transport.webSocket;
    yield* socket === undefined ? this.#events() : this.#messages(socket);
  }

  async *#events(): AsyncGenerator<LiveReport, void, undefined> {
    const silence = new AbortController();
    const watch = setTimeoutOf(silence);
    this.#hangUp = () => silence.abort(new Error("the budget has no room for another minute"));
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (this.#reader.lastId !== null) headers["Last-Event-ID"] = this.#reader.lastId;
      const response = await this.#transport.open(this.#call, newAttempt(), { headers, signal: silence.signal });
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      if (reader === undefined) throw new UnreadableError("expected a stream of events");
      try {
        for (;;) {
          const { done, value } = await reader.read().catch((cause: unknown) => {
            this.#expectTime();
            throw new UnreachableError(`the stream was lost: ${String(cause)}`, { cause, mayBeCharged: true });
          });
          if (done) return;
          watch.refresh();
          yield* this.#feed(value);
        }
      } finally {
        await reader.cancel().catch(() => undefined);
      }
    } finally {
      clearTimeout(this.#leaving);
      watch.clear();
      silence.abort();
    }
  }

  async *#messages(kind: typeof WebSocket): AsyncGenerator<LiveReport, void, undefined> {
    const { url, token } = this.#transport.socketOf(this.#call);
    const since = this.#reader.lastId === null ? {} : { lastEventId: this.#reader.lastId };
    const first = JSON.stringify({ type: "auth", ...token, ...since });
    const texts = new SocketTexts(new kind(url), first, (text) => this.#count(text));
    this.#hangUp = () => texts.close();
    try {
      for (;;) {
        const text = await texts.next(SOCKET_SILENCE_MS_MAX);
        if (typeof text !== "string" && !texts.wasOpen) {
          throw new UnreachableError("the WebSocket could not be opened", { mayBeCharged: false });
        }
        if (typeof text === "string") yield* this.#take(messageOf(text, this.#reader));
        else {
          this.#expectTime();
          return; // the connection is lost
        }
      }
    } finally {
      clearTimeout(this.#leaving);
      texts.close();
    }
  }

  /** Return the milliseconds to wait before reopening the stream, or throw `failure`. */
  waitMs(failure: ClientError): number {
    if (failure instanceof UnreachableError) {
      failure.mayBeCharged = this.release(!failure.mayBeCharged);
    } else if (failure instanceof RefusedError) {
      this.release(true); // the event of a charged minute comes before the end
    } else throw failure;
    if (this.#openedAtMs !== null) {
      const nowMs = performance.now();
      if (nowMs >= this.#openedAtMs + STABLE_AFTER_MS) this.#attempt = newAttempt();
      this.#attempt.sinceMs = nowMs; // the time for retries begins with the loss
    }
    return Math.max(this.#attempt.waitMs(failure, this.#transport.patienceMs), this.#reader.retryMs);
  }

  /**
   * End the reservation for the next minute. Its credits count as unspent if `isUnspent`, or if that
   * minute cannot have been charged yet. Return whether they count as spent.
   */
  release(isUnspent: boolean): boolean {
    const isSpent = this.#reserved > 0 && !isUnspent && performance.now() >= this.#chargedFromMs;
    if (!isSpent) this.#transport.budget.giveBack(this.#reserved);
    this.#reserved = 0;
    return isSpent;
  }

  /** Reserve the credits of the next minute, which may be charged from `chargedFromMs` on. */
  #reserve(chargedFromMs: number): void {
    this.#transport.budget.reserve(this.#call.creditsMax);
    this.#reserved = this.#call.creditsMax;
    this.#chargedFromMs = chargedFromMs;
  }

  *#feed(text: string): Generator<LiveReport, void, undefined> {
    for (const event of this.#reader.feed(text)) {
      if (event.name === "minute") this.#begin(parse(event));
      yield* this.#take(event);
    }
    this.#expectTime();
  }

  *#take(event: ServerEvent): Generator<LiveReport, void, undefined> {
    this.#openedAtMs ??= performance.now();
    const report = this.#hear(event);
    if (report !== null) yield report;
  }

  #expectTime(): void {
    if (performance.now() >= this.#leaveAtMs) {
      throw new OverBudgetError("expected credits for another minute in the budget; none is left");
    }
  }

  #hear(event: ServerEvent): LiveReport | null {
    const data = parse(event);
    if (event.name === "snapshot") return this.#report(data, true);
    if (event.name === "update") return this.#report(data, false);
    if (event.name === "end") this.#end(data);
    return null;
  }

  /** Count a minute when its message arrives: the consumer may take its messages much later. */
  #count(text: string): void {
    const told = fieldsOf(text);
    const data = told?.["data"];
    if (told?.["type"] === "minute" && isFields(data)) this.#begin(data);
    if (performance.now() >= this.#leaveAtMs) this.#hangUp();
  }

  #begin(minute: Fields): void {
    const credits = Number(minute["credits"]);
    this.#transport.budget.giveBack(this.#reserved - credits);
    this.#reserved = 0;
    this.#creditsLeft = Number(minute["creditsRemaining"]);
    const nowMs = performance.now();
    this.#minuteAtMs = Math.min(nowMs, this.#minuteAtMs + MINUTE_MS_MAX);
    const endsMs = this.#minuteAtMs + LEAVE_AFTER_MS;
    try {
      this.#reserve(endsMs);
    } catch (failure) {
      if (!(failure instanceof OverBudgetError)) throw failure;
      this.#leaveAtMs = endsMs;
      // By a timer, because the consumer may be busy at that time
      clearTimeout(this.#leaving);
      this.#leaving = setTimeout(() => {
        this.#leaveAtMs = 0; // a timer may be early by a millisecond
        this.#hangUp();
      }, endsMs - nowMs);
    }
  }

  #report(told: Fields, isWhole: boolean): LiveReport {
    const token = String(told["token"]);
    const before = this.#known.get(token);
    if (!isWhole && before === undefined) throw new UnreadableError("expected a snapshot before an update");
    const whole = isWhole || before === undefined ? told : merged(before, told);
    this.#known.set(token, whole);
    const { slot, ...report } = whole;
    return { slot: Number(slot), report: report as unknown as Report, creditsLeft: this.#creditsLeft };
  }

  #end(data: Fields): void {
    this.#transport.budget.giveBack(Number(data["creditsReturned"] ?? 0));
    const reason = String(data["reason"]);
    const [status, code] = ENDS[reason] ?? [503, "SERVICE_UNAVAILABLE"];
    const message = `${reason}: ${String(data["message"])}`;
    throw refused({ status, code, message, requestId: null, retryAfterMs: null });
  }
}

function newAttempt(): Attempt {
  return new Attempt("", undefined, performance.now());
}

/**
 * Return the event in the message `text`; store its id and pause for the next connection. Throws
 * RefusedError for a message of the type "error".
 */
function messageOf(text: string, reader: EventReader): ServerEvent {
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
  if (typeof id === "string") reader.lastId = id;
  if (typeof retryMs === "number") reader.retryMs = retryMs;
  if (typeof type !== "string") throw new UnreadableError("expected a message with a type");
  return { name: type, data: JSON.stringify(data) };
}

function parse(event: ServerEvent): Fields {
  const data = fieldsOf(event.data);
  if (data === null) throw new UnreadableError(`expected an event ${event.name} with an object`);
  return data;
}

function fieldsOf(text: string): Fields | null {
  try {
    const data: unknown = JSON.parse(text);
    return isFields(data) ? data : null;
  } catch {
    return null;
  }
}

/** Return `before` with the fields of the update in place of the old fields, at every depth. */
function merged(before: Fields, told: Fields): Fields {
  const whole = { ...before };
  for (const [name, value] of Object.entries(told)) {
    const old = whole[name];
    whole[name] = isFields(old) && isFields(value) ? merged(old, value) : value;
  }
  return whole;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return a timer that aborts `silence` if it is not refreshed for SILENCE_MS_MAX. */
function setTimeoutOf(silence: AbortController): { refresh: () => void; clear: () => void } {
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
