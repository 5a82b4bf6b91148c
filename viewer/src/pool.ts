// Workers with one reader each; the same cell always goes to the same one.

import type { Counters } from "./source.ts";
import { newCounters } from "./source.ts";

export interface Fault { class: string; key: string | null; message: string; hint: string | null }

export class StoreFault extends Error {
  readonly fault: Fault;
  constructor(fault: Fault) { super(fault.message); this.fault = fault; }
}

interface Pending { resolve: (value: any) => void; reject: (error: unknown) => void; worker: number }

export interface StoreSource { url?: string; files?: Map<string, Blob>; name: string }

export class Pool {
  readonly workers: Worker[] = [];
  readonly #pending = new Map<number, Pending>();
  readonly #status: { counters: Counters; wasm: number }[] = [];
  #next = 1;

  constructor(script: string, count: number) {
    for (let i = 0; i < count; i++) {
      const worker = new Worker(script, { type: "module" });
      worker.onmessage = (event) => this.#answer(event.data, i);
      worker.onerror = (event) => this.#lost(i, event.message || "the worker ended");
      this.workers.push(worker);
      this.#status.push({ counters: newCounters(), wasm: 0 });
    }
  }

  async open(wasm: WebAssembly.Module, source: StoreSource, budget: number): Promise<void> {
    const atOnce = Math.max(2, Math.floor(16 / this.workers.length));
    const each = Math.floor(budget / this.workers.length);
    await Promise.all(this.workers.map((_, i) => this.ask(i, "open", [{ wasm, ...source, atOnce, budget: each }]).done));
  }

  /** Asks worker `index`; the token cancels. */
  ask(index: number, op: string, args: unknown[]): { done: Promise<any>; token: number } {
    const id = this.#next++;
    const worker = index % this.workers.length;
    const done = new Promise<any>((resolve, reject) => this.#pending.set(id, { resolve, reject, worker }));
    this.workers[worker].postMessage({ id, op, args });
    return { done, token: id };
  }

  cancel(token: number): void {
    const pending = this.#pending.get(token);
    if (pending) this.workers[pending.worker].postMessage({ id: 0, op: "cancel", args: [token] });
  }

  statistics(): { counters: Counters; wasm: number } {
    const all = { counters: newCounters(), wasm: 0 };
    for (const { counters, wasm } of this.#status) {
      all.wasm += wasm;
      for (const key of Object.keys(counters) as (keyof Counters)[]) all.counters[key] += counters[key];
    }
    return all;
  }

  close(): void { for (const worker of this.workers) worker.terminate(); }

  #answer(data: any, worker: number): void {
    this.#status[worker] = data.status;
    const pending = this.#pending.get(data.id);
    if (!pending) return;
    this.#pending.delete(data.id);
    if (data.fault) pending.reject(new StoreFault(data.fault));
    else pending.resolve(data.value);
  }

  #lost(worker: number, message: string): void {
    for (const [id, pending] of this.#pending) if (pending.worker === worker) {
      this.#pending.delete(id);
      pending.reject(new StoreFault({ class: "Io", key: null, message, hint: "reload the page" }));
    }
  }
}
