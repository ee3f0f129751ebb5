import { UnreadableError } from "./errors.ts";

const EVENT_CHARACTERS_MAX = 256 * 1024;

/** One server-sent event. */
export interface ServerEvent {
  name: string;
  data: string;
}

/** Splits the text of a stream into events (WHATWG HTML, section 9.2). */
export class EventReader {
  /** The value of Last-Event-ID to send after a lost connection; null: send none. */
  lastId: string | null = null;
  /** Milliseconds to wait before connecting again; 0 if the service has set none. */
  retryMs = 0;
  #unread = "";
  #name = "";
  #data: string[] = [];

  /** Drop the incomplete event of a lost connection. */
  restart(): void {
    this.#unread = "";
    this.#name = "";
    this.#data = [];
  }

  /** Yield the events that `text` completes. Throws UnreadableError if an event is too long. */
  *feed(text: string): Generator<ServerEvent, void, undefined> {
    const lines = (this.#unread + text).split("\n");
    this.#unread = lines.pop() ?? "";
    const kept = this.#data.reduce((sum, each) => sum + each.length, this.#unread.length);
    if (kept > EVENT_CHARACTERS_MAX) throw new UnreadableError("expected shorter events");
    for (const line of lines) {
      const event = this.#read(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (event !== null) yield event;
    }
  }

  #read(line: string): ServerEvent | null {
    if (line === "") {
      const event = { name: this.#name || "message", data: this.#data.join("\n") };
      const isEvent = this.#data.length > 0;
      this.#name = "";
      this.#data = [];
      return isEvent ? event : null;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.lastId = value;
    else if (field === "retry" && /^\d{1,8}$/.test(value)) this.retryMs = Number(value);
    return null;
  }
}
