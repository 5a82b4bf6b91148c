// Workers with one reader each; the same cell always goes to the same one.

import { newCounters, type Counters } from "./source.ts";
import { newStatus, sumUp, type Status } from "./status.ts";

export interface Fault { class: string; key: string | null; message: string; hint: string | null }

export class StoreFault extends Error {
  readonly fault: Fault;
  constructor(fault: Fault) { super(fault.message); this.fault = fault; }
}

interface Pending { resolve: (value: any) => void; reject: (error: unknown) => void; worker: number }

/** `keys` is the address that lists the names of a store, where its host has one. */
export interface StoreSource { url?: string; files?: Map<string, Blob>; name: string; keys?: string | null }

/** An idle worker with more memory than this is replaced: memory of WebAssembly never shrinks. */
const LARGE_WORKER_BYTES = 192 * 2 ** 20;
/** The number of the worker that fetches, beside those of the readers. */
const HOST = -1;
/** The least that a reader gets. */
const READER_BYTES = 16 * 2 ** 20;

/** Requests under way at once, of all stores of a page. */
const REQUESTS_AT_ONCE = 16;
/** Bytes are kept for all readers, this part of what these have: cells of lines read those around them as well. */
const KEPT_SHARE = 0.75;

export class Pool {
  readonly workers: Worker[] = [];
  readonly #script: string;
  readonly #pending = new Map<number, Pending>();
  readonly #status: Status[] = [];
  /** The worker that fetches for all readers; none where files were dropped. */
  #host: Worker | null = null;
  #hosted = newStatus();
  /** What workers have counted that were replaced. */
  readonly #retired = newCounters();
  #opened: Record<string, unknown> | null = null;
  #large = LARGE_WORKER_BYTES;
  #next = 1;

  constructor(script: string, count: number) {
    this.#script = script;
    for (let i = 0; i < count; i++) {
      this.workers.push(this.#start(i));
      this.#status.push(newStatus());
    }
  }

  #start(i: number): Worker {
    const worker = new Worker(this.#script, { type: "module" });
    worker.onmessage = (event) => this.#answer(event.data, i, worker);
    worker.onerror = (event) => this.#lost(i, event.message || "the worker ended");
    return worker;
  }

  /** Opens a store with readers that share `budget` bytes for what they read; it is one of `stores`. */
  async open(wasm: WebAssembly.Module, source: StoreSource, budget: number, stores = 1): Promise<void> {
    const each = Math.max(READER_BYTES, Math.floor(budget / this.workers.length));
    this.#large = Math.min(LARGE_WORKER_BYTES, 4 * each);
    if (source.url) {
      this.#host = new Worker(this.#script, { type: "module" });
      this.#host.onmessage = ({ data: { id, value, status } }) => { this.#see(status); this.#settle(id, value); };
      this.#host.onerror = (event) => this.#lost(HOST, event.message || "the worker that fetches ended");
      this.#host.postMessage({ id: 0, op: "host", args: [{ url: source.url, keys: source.keys ?? null, atOnce: Math.max(2, Math.floor(REQUESTS_AT_ONCE / stores)), cache: budget * KEPT_SHARE }] });
    }
    this.#opened = { wasm, files: source.files, name: source.name, canList: !!source.keys, budget: each };
    await Promise.all(this.workers.map((_, i) => this.#openReader(i)));
  }

  /** Opens the store in a reader, which asks the one source for bytes. */
  #openReader(i: number): Promise<void> {
    const { port1, port2 } = new MessageChannel();
    this.#host?.postMessage({ id: 0, op: "port", args: [port1] }, [port1]);
    return this.#ask(i, "open", [{ ...this.#opened, port: this.#host ? port2 : null }], this.#host ? [port2] : []).done;
  }

  #see(status: Status): void { if (status.order > this.#hosted.order) this.#hosted = status; }

  /** Puts a new worker in the place of one that has nothing to do. */
  #replace(i: number): void {
    const { counters } = this.#status[i];
    for (const key of Object.keys(counters) as (keyof Counters)[]) this.#retired[key] += counters[key];
    this.workers[i].terminate();
    this.workers[i] = this.#start(i);
    this.#status[i] = newStatus();
    this.#openReader(i).catch(() => {});
  }

  /** Asks worker `index`; the token cancels. */
  ask(index: number, op: string, args: unknown[]): { done: Promise<any>; token: number } { return this.#ask(index % this.workers.length, op, args, []); }

  #ask(worker: number, op: string, args: unknown[], transfer: Transferable[]): { done: Promise<any>; token: number } {
    const id = this.#next++;
    const done = new Promise<any>((resolve, reject) => this.#pending.set(id, { resolve, reject, worker }));
    (worker === HOST ? this.#host! : this.workers[worker]).postMessage({ id, op, args }, transfer);
    return { done, token: id };
  }

  /** Whether the store was changed since it was opened. */
  changed(): Promise<boolean> { return this.#host ? this.#ask(HOST, "changed", [], []).done : Promise.resolve(false); }

  /** Lets everything be fetched anew. */
  forget(): void { this.#host?.postMessage({ id: 0, op: "forget", args: [] }); }

  cancel(token: number): void {
    const pending = this.#pending.get(token);
    if (pending) this.workers[pending.worker].postMessage({ id: 0, op: "cancel", args: [token] });
  }

  statistics(): Status { return sumUp([{ ...newStatus(), counters: this.#retired }, this.#hosted, ...this.#status]); }

  close(): void { for (const worker of [...this.workers, this.#host]) worker?.terminate(); }

  #answer(data: any, worker: number, from: Worker): void {
    if (this.workers[worker] !== from) return;
    this.#status[worker] = data.status;
    if (data.seen) this.#see(data.seen);
    if (!this.#settle(data.id, data.value, data.fault)) return;
    if (data.status.wasm > this.#large && this.#opened && ![...this.#pending.values()].some((one) => one.worker === worker)) this.#replace(worker);
  }

  #settle(id: number, value: unknown, fault?: Fault): boolean {
    const pending = this.#pending.get(id);
    if (!pending) return false;
    this.#pending.delete(id);
    if (fault) pending.reject(new StoreFault(fault));
    else pending.resolve(value);
    return true;
  }

  #lost(worker: number, message: string): void {
    // Without the worker that fetches, no reader goes on.
    for (const [id, pending] of this.#pending) if (worker === HOST || pending.worker === worker) {
      this.#pending.delete(id);
      pending.reject(new StoreFault({ class: "Io", key: null, message, hint: "reload the page" }));
    }
  }
}

/** What a scene asks: one store, or several. */
export type StorePool = Pick<Pool, "ask" | "cancel" | "changed" | "forget" | "statistics" | "close">;

/** The kind of geometry of a name that may have a store before it: `mesh` of `brain/mesh`. */
export const formOf = (kind: string): string => kind.slice(kind.lastIndexOf("/") + 1);

/** The store of such a name; nothing where there is one store. */
export const storeOf = (kind: string): string => kind.slice(0, Math.max(0, kind.lastIndexOf("/")));

interface Joined { name: string; pool: Pool; groups: number }

/** Several stores as one: their kinds and groups have the name of the store before them, and questions go to the store that they name. */
export class JoinedPool implements StorePool {
  readonly #stores: Joined[] = [];
  readonly #tokens = new Map<number, { pool: Pool; token: number }>();
  #next = 1;

  constructor(stores: { name: string; pool: Pool }[]) {
    this.#stores = stores.map(({ name, pool }) => ({ name, pool, groups: 0 }));
  }

  /** What all of them hold: boxes are joined, and the axes are those of the first. */
  join(infos: any[]): any {
    const [first] = infos, side = (at: 0 | 1, choose: (...numbers: number[]) => number) => first.bounds[at].map((_: number, axis: number) => choose(...infos.map((info) => info.bounds[at][axis] ?? first.bounds[at][axis])));
    const kinds = [], list = [], faults = [];
    let groups = 0;
    for (const [at, info] of infos.entries()) {
      const store = this.#stores[at];
      store.groups = groups;
      for (const kind of info.kinds) kinds.push({ ...kind, kind: `${store.name}/${kind.kind}` });
      for (const { group, name } of info.groups?.list ?? []) list.push({ group: group + groups, name: `${store.name}: ${name}`, store: store.name });
      for (const { level, error } of info.faults) faults.push({ level, error: { ...error, message: `${store.name}: ${error.message}` } });
      groups += info.groups?.count ?? 0;
      const words = (of: any) => of.axes.map((axis: any) => `${axis.name} ${axis.unit ?? ""}`).join(", ");
      if (words(info) !== words(first)) faults.push({ level: 0, error: { class: "Unsupported", key: null, message: `${store.name} has the axes ${words(info)}, and is shown as if they were ${words(first)}`, hint: null } });
    }
    return { ...first, bounds: [side(0, Math.min), side(1, Math.max)], kinds, groups: groups ? { count: groups, list } : null, faults, notices: infos.flatMap((info) => info.notices) };
  }

  ask(index: number, op: string, args: unknown[]): { done: Promise<any>; token: number } {
    const token = this.#next++;
    if (op === "search") return { done: this.#search(index, args), token };
    const [store, own] = this.#route(op, args);
    const asked = store.pool.ask(index, op, own);
    this.#tokens.set(token, { pool: store.pool, token: asked.token });
    const done = asked.done.finally(() => this.#tokens.delete(token));
    return { done, token };
  }

  /** The store that a question is for, and the question as that store understands it. */
  #route(op: string, args: any[]): [Joined, unknown[]] {
    if (op === "group") {
      const store = [...this.#stores].reverse().find((one) => one.groups <= args[0])!;
      return [store, [args[0] - store.groups]];
    }
    const kind: string = typeof args[0] === "string" ? args[0] : args[0].kind;
    const store = this.#stores.find((one) => one.name === storeOf(kind))!;
    return [store, typeof args[0] === "string" ? [formOf(kind), ...args.slice(1)] : [{ ...args[0], kind: formOf(kind) }, ...args.slice(1)]];
  }

  async #search(index: number, args: unknown[]): Promise<any[]> {
    const found = await Promise.all(this.#stores.map(async ({ name, pool }) => (await pool.ask(index, "search", args).done).map((one: any) => ({ ...one, kind: `${name}/${one.kind}` }))));
    return found.flat();
  }

  cancel(token: number): void {
    const asked = this.#tokens.get(token);
    if (asked) asked.pool.cancel(asked.token);
  }

  async changed(): Promise<boolean> { return (await Promise.all(this.#stores.map(({ pool }) => pool.changed()))).some(Boolean); }

  forget(): void { for (const { pool } of this.#stores) pool.forget(); }

  statistics(): Status { return sumUp(this.#stores.map(({ pool }) => pool.statistics())); }

  close(): void { for (const { pool } of this.#stores) pool.close(); }
}
