/** A WebSocket whose messages are read as texts. */

export class SocketTexts {
  readonly #socket: WebSocket;
  readonly #texts: string[] = [];
  #isOver = false;
  /** Whether the first message has been sent. */
  wasOpen = false;
  #wake: () => void = () => undefined;

  /** Send `first` through `socket` when it is open. */
  constructor(socket: WebSocket, first: string) {
    this.#socket = socket;
    socket.addEventListener("open", () => {
      this.wasOpen = true;
      socket.send(first);
    });
    socket.addEventListener("message", (event) => {
      this.#texts.push(String(event.data));
      this.#wake();
    });
    const end = (): void => {
      this.#isOver = true;
      this.#wake();
    };
    socket.addEventListener("close", end);
    socket.addEventListener("error", end);
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

  close(): void {
    this.#socket.close();
  }
}
