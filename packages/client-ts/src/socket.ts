/** A WebSocket whose messages are read as texts. */

export class SocketTexts {
  readonly #socket: WebSocket;
  readonly #texts: string[] = [];
  #isOver = false;
  /** Whether the first message has been sent. */
  wasOpen = false;
  #wake: () => void = () => undefined;

  /** Send `first` through `socket` when it is open. Each message is passed to `hear` on arrival. */
  constructor(socket: WebSocket, first: string, hear: (text: string) => void) {
    this.#socket = socket;
    socket.addEventListener("open", () => {
      this.wasOpen = true;
      socket.send(first);
    });
    socket.addEventListener("message", (event) => {
      if (this.#isOver) return;
      const text = String(event.data);
      hear(text);
      this.#texts.push(text);
      this.#wake();
    });
    socket.addEventListener("close", () => this.#end());
    socket.addEventListener("error", () => this.#end());
  }

  #end(): void {
    this.#isOver = true;
    this.#wake();
  }

  /**
   * Return the next message; null if the socket has closed, undefined if none arrives in `ms` ms.
   */
  async next(ms: number): Promise<string | null | undefined> {
    if (this.#texts.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.max(0, ms));
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this.#texts.shift() ?? (this.#isOver ? null : undefined);
  }

  /** Close the socket; the messages that have arrived remain readable. */
  close(): void {
    this.#end();
    this.#socket.close();
  }
}
