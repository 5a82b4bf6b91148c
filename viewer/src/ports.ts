// One source of bytes for the readers of a page: it runs in a worker of its own, and each reader asks it through a port.

import { HttpSource, type Names, type Reply, type Source } from "./source.ts";
import { newStatus, type Status } from "./status.ts";

/** What a reader asks: names, bytes, or no longer for what it asked. */
interface Asked { id: number; list?: [string, boolean]; get?: [string, number, number, number]; cancel?: boolean }
interface Answer { id: number; value?: any; error?: string; status: Status }

/** How often the page is told what is under way. */
const TOLD_MS = 50;

/** Answers what comes through ports; `tell` gets what was asked for so far. */
export class SourceHost {
  readonly source: HttpSource;
  readonly #tell: (status: Status) => void;
  #timer = 0;
  #order = 0;

  constructor(source: HttpSource, tell: (status: Status) => void) {
    this.source = source;
    this.#tell = tell;
    source.onChange = () => { this.#timer ||= setTimeout(() => { this.#timer = 0; tell(this.status()); }, TOLD_MS) as unknown as number; };
  }

  status(): Status { return { ...newStatus(), counters: { ...this.source.counters }, recent: [...this.source.recent], cache: this.source.held, order: ++this.#order }; }

  serve(port: MessagePort): void {
    const running = new Map<number, AbortController>();
    port.onmessage = async ({ data: { id, list, get, cancel } }: MessageEvent<Asked>) => {
      if (cancel) { running.get(id)?.abort(new Error("no longer wanted")); return; }
      const abort = new AbortController();
      running.set(id, abort);
      try {
        const value = list ? await this.source.list!(...list) : await this.source.get(...get!, abort.signal);
        port.postMessage({ id, value, status: this.status() }, list ? [] : [(value as Reply).bytes.buffer as ArrayBuffer]);
      } catch (error) {
        port.postMessage({ id, error: (error as Error)?.message ?? String(error), status: this.status() });
      } finally {
        running.delete(id);
      }
    };
  }
}

/** The source, as a reader in another worker has it. */
export class PortSource implements Source {
  /** What the source had done when it answered last. */
  seen: Status | null = null;
  readonly list?: (prefix: string, deep: boolean) => Promise<Names>;
  readonly #port: MessagePort;
  readonly #waiting = new Map<number, { resolve: (value: any) => void; reject: (error: unknown) => void }>();
  #next = 1;

  constructor(port: MessagePort, canList: boolean) {
    this.#port = port;
    if (canList) this.list = (prefix, deep) => this.#ask({ list: [prefix, deep] }).done;
    port.onmessage = ({ data: { id, value, error, status } }: MessageEvent<Answer>) => {
      this.seen = status;
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.resolve(value);
      else waiting?.reject(new Error(error));
    };
  }

  get(key: string, first: number, last: number, suffix: number, signal: AbortSignal): Promise<Reply> {
    const { id, done } = this.#ask({ get: [key, first, last, suffix] });
    signal.addEventListener("abort", () => { if (this.#waiting.delete(id)) this.#port.postMessage({ id, cancel: true }); });
    return done;
  }

  #ask(what: Omit<Asked, "id">): { id: number; done: Promise<any> } {
    const id = this.#next++, done = new Promise<any>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    this.#port.postMessage({ ...what, id });
    return { id, done };
  }
}
