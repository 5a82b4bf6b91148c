// Where a worker has bytes from: ranges over HTTP, or files that were dropped on the page.

export interface Reply { status: number; bytes: Uint8Array; first: number; total: number; etag: string | null }

/** `changed` counts objects that were replaced since they were read first. */
export interface Counters { sent: number; done: number; failed: number; cancelled: number; inFlight: number; queued: number; transferred: number; changed: number }

/** One answer: the end of its address, what came, and how long that took. */
export interface Answered { key: string; status: number; bytes: number; ms: number; at: number }

/** Answers that are remembered. */
export const REMEMBERED = 8;

export const newCounters = (): Counters => ({ sent: 0, done: 0, failed: 0, cancelled: 0, inFlight: 0, queued: 0, transferred: 0, changed: 0 });

/** Names below a prefix and relative to it; sizes where they are known. */
export interface Names { keys: string[]; sizes: number[] | null; folders: string[] }

/** The form that the reader in WebAssembly asks for. A host that has no `list` is read by what the store says of itself. */
export interface Source {
  list?(prefix: string, deep: boolean): Promise<Names>;
  get(key: string, first: number, last: number, suffix: number, signal: AbortSignal): Promise<Reply>;
}

interface Part { first: number; last: number; reply: Promise<Reply> }

const DEADLINE_MS = 30_000;
const TRIES = 4;
/** Bytes of parts that are kept beside what the reader keeps: it reads cells that lie near each other in one request. */
const PART_BYTES = 16 * 2 ** 20;
/** Objects that are asked for again where something does not fit together. */
const CHECKED = 32;
/** Bytes of objects that a host without ranges sent whole, and that are kept. */
const WHOLE_BYTES = 128 * 2 ** 20;

/** Objects below a URL. A request that fails in passing is sent again; one that is dropped is aborted. `keys` is the address
 * that lists names, where the host has one. */
export class HttpSource implements Source {
  readonly counters: Counters;
  /** The last answers, the newest last. */
  readonly recent: Answered[] = [];
  readonly list?: (prefix: string, deep: boolean) => Promise<Names>;
  readonly #base: string;
  readonly #atOnce: number;
  readonly #waiting: (() => void)[] = [];
  /** What came whole where a part was asked for, the latest used last. */
  readonly #whole = new Map<string, Reply>();
  #wholeBytes = 0;
  readonly #tags = new Map<string, string>();
  /** Parts that were fetched, or are under way, by their object: what lies between cells comes along, and is asked for next. */
  readonly #parts = new Map<string, Part[]>();
  #partBytes = 0;

  constructor(base: string, atOnce: number, counters: Counters, keys: string | null = null) {
    this.#base = base.replace(/\/+$/, "");
    this.#atOnce = atOnce;
    this.counters = counters;
    if (keys) this.list = (prefix, deep) => this.#list(keys, prefix, deep);
  }

  async #list(keys: string, prefix: string, deep: boolean): Promise<Names> {
    const url = `${keys}?prefix=${encodeURIComponent(prefix)}&deep=${deep}`, signal = new AbortController().signal;
    await this.#enter(signal);
    try {
      const { status, bytes } = await this.#tries(url, null, signal), said = new TextDecoder().decode(bytes);
      if (status !== 200) throw new Error(`the names below ${prefix} cannot be listed: status ${status}`);
      return JSON.parse(said);
    } finally {
      this.#leave();
    }
  }

  async get(key: string, first: number, last: number, suffix: number, signal: AbortSignal): Promise<Reply> {
    // A store in one file is its own base: its only key is its name.
    const url = this.#base.endsWith(".tet") || key === "" ? this.#base : `${this.#base}/${key.split("/").map(encodeURIComponent).join("/")}`;
    const range = suffix > 0 ? `bytes=-${suffix}` : first >= 0 ? `bytes=${first}-${last >= 0 ? last : ""}` : null;
    const kept = range ? this.#whole.get(url) : undefined;
    if (kept) {
      this.#whole.delete(url);
      this.#whole.set(url, kept);
      return kept;
    }
    if (first >= 0 && last >= first) return this.#getPart(url, first, last, signal);
    return this.#fetch(url, range, signal);
  }

  async #fetch(url: string, range: string | null, signal: AbortSignal): Promise<Reply> {
    await this.#enter(signal);
    try {
      const reply = await this.#tries(url, range, signal);
      this.#note(url, reply);
      if (range && reply.status === 200) this.#keep(url, reply);
      return reply;
    } finally {
      this.#leave();
    }
  }

  /** Fetches of a part only what is not there or under way. */
  async #getPart(url: string, first: number, last: number, signal: AbortSignal): Promise<Reply> {
    const parts = this.#parts.get(url) ?? [], holds = (at: number) => parts.filter((part) => part.first <= at && part.last >= at);
    const head = holds(first).sort((a, b) => b.last - a.last)[0], tail = head && head.last >= last ? undefined : holds(last).sort((a, b) => a.first - b.first)[0];
    const from = head ? head.last + 1 : first, to = tail ? tail.first - 1 : last;
    if (head || tail) {
      const middle = from <= to ? this.#fetchPart(url, from, to, signal) : null;
      const [a, b, c] = await Promise.allSettled([head?.reply, middle, tail?.reply]);
      // Who asked first may have given up, or the object was replaced: then all of it is asked for.
      const replies = [a, b, c].map((one) => (one.status === "fulfilled" ? one.value : undefined) ?? null), some = replies.filter((one) => one !== null);
      if ([a, b, c].every(({ status }) => status === "fulfilled") && some.every(({ status, etag }) => status === 206 && etag === some[0].etag)) {
        const bytes = new Uint8Array(last - first + 1);
        for (const { bytes: own, first: start } of some) {
          const low = Math.max(first, start), high = Math.min(last + 1, start + own.length);
          if (high > low) bytes.set(own.subarray(low - start, high - start), low - first);
        }
        return { ...some[0], bytes, first };
      }
      signal.throwIfAborted();
    }
    return this.#fetchPart(url, first, last, signal);
  }

  #fetchPart(url: string, first: number, last: number, signal: AbortSignal): Promise<Reply> {
    const reply = this.#fetch(url, `bytes=${first}-${last}`, signal), part: Part = { first, last, reply };
    const list = this.#parts.get(url) ?? [], drop = () => { const at = list.indexOf(part); if (at >= 0) { list.splice(at, 1); this.#partBytes -= last - first + 1; } };
    list.push(part);
    this.#parts.delete(url); // the latest is last
    this.#parts.set(url, list);
    this.#partBytes += last - first + 1;
    // An answer of another length would be joined wrongly.
    reply.then(({ status, bytes }) => { if (status !== 206 || bytes.length !== last - first + 1) drop(); }, drop);
    for (const [other, { length }] of this.#parts) {
      if (this.#partBytes <= PART_BYTES) break;
      for (const { first, last } of this.#parts.get(other)!.splice(0, other === url ? length - 1 : length)) this.#partBytes -= last - first + 1;
      if (other !== url) this.#parts.delete(other);
    }
    return reply;
  }

  /** A host without ranges sends all of an object for each part of it: it is asked once. */
  #keep(url: string, reply: Reply): void {
    if (this.#whole.has(url)) return;
    this.#whole.set(url, reply);
    this.#wholeBytes += reply.bytes.length;
    for (const [other, { bytes }] of this.#whole) {
      if (this.#wholeBytes <= WHOLE_BYTES || this.#whole.size === 1) break;
      this.#whole.delete(other);
      this.#wholeBytes -= bytes.length;
    }
  }

  /** Looks whether any of the objects that were read last was replaced since. */
  async check(): Promise<boolean> {
    const signal = new AbortController().signal;
    await Promise.all([...this.#tags.keys()].slice(-CHECKED).map(async (url) => { try { this.#note(url, await this.#tries(url, "bytes=0-0", signal)); } catch { /* what is gone is said elsewhere */ } }));
    return this.counters.changed > 0;
  }

  #dropParts(url: string): void {
    for (const { first, last } of this.#parts.get(url) ?? []) this.#partBytes -= last - first + 1;
    this.#parts.delete(url);
  }

  #note(url: string, { status, etag }: Reply): void {
    if (!etag || status >= 400) return;
    const before = this.#tags.get(url);
    if (before !== undefined && before !== etag) { this.counters.changed++; this.#dropParts(url); }
    this.#tags.delete(url); // the latest is last
    this.#tags.set(url, etag);
  }

  #leave(): void {
    this.counters.inFlight--;
    this.#waiting.shift()?.();
  }

  async #enter(signal: AbortSignal): Promise<void> {
    if (this.counters.inFlight >= this.#atOnce) {
      this.counters.queued++;
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
        signal.addEventListener("abort", () => {
          const at = this.#waiting.indexOf(resolve);
          if (at >= 0) { this.#waiting.splice(at, 1); resolve(); }
        });
      });
      this.counters.queued--;
    }
    this.counters.inFlight++;
  }

  async #tries(url: string, range: string | null, signal: AbortSignal): Promise<Reply> {
    for (let tried = 1; ; tried++) {
      signal.throwIfAborted();
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(new Error("no answer within 30 s")), DEADLINE_MS);
      const stop = () => late.abort(signal.reason);
      signal.addEventListener("abort", stop);
      this.counters.sent++;
      const begun = Date.now();
      try {
        const answer = await fetch(url, { headers: range ? { Range: range } : {}, signal: late.signal, credentials: "same-origin", cache: "no-store" });
        if (RETRIED.includes(answer.status) && tried < TRIES) {
          const asked = Number(answer.headers.get("Retry-After"));
          this.counters.failed++;
          await pause(asked > 0 && asked < 30 ? asked * 1000 : 100 * 2 ** tried * Math.random(), signal);
          continue;
        }
        const bytes = new Uint8Array(answer.ok ? await answer.arrayBuffer() : new ArrayBuffer(0));
        this.counters.transferred += bytes.length;
        const now = Date.now();
        this.recent.push({ key: `${url.slice(this.#base.length + 1)} ${range ?? ""}`, status: answer.status, bytes: bytes.length, ms: now - begun, at: now });
        this.recent.splice(0, this.recent.length - REMEMBERED);
        const reply = replyOf(answer, bytes, url);
        this.counters.done++;
        return reply;
      } catch (error) {
        if (signal.aborted) { this.counters.cancelled++; throw error; }
        this.counters.failed++;
        if (tried >= TRIES) throw new Error(`${new URL(url).pathname.split("/").slice(-4).join("/")} cannot be fetched: ${(error as Error).message}`);
        await pause(100 * 2 ** tried * Math.random(), signal);
      } finally {
        clearTimeout(timer);
        signal.removeEventListener("abort", stop);
      }
    }
  }
}

const RETRIED = [408, 429, 500, 502, 503, 504];

function replyOf(answer: Response, bytes: Uint8Array, url: string): Reply {
  const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(answer.headers.get("Content-Range") ?? "");
  // Caches of browsers answer with the right head and a body that is empty or short.
  if (answer.status === 206 && range && bytes.length !== Number(range[2]) - Number(range[1]) + 1) throw new Error(`the body has ${bytes.length} bytes, its head says ${range[0]}`);
  let status = answer.status;
  // Some static hosts answer with a page of HTML where there is no file.
  if (status === 200 && /text\/html/.test(answer.headers.get("Content-Type") ?? "") && !url.endsWith(".html")) status = 404;
  return { status, bytes, first: range ? Number(range[1]) : 0, total: range ? Number(range[3]) : bytes.length, etag: answer.headers.get("ETag") };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); });
  });
}

/** Files of a folder or a pack, by their paths. */
export class FileSource implements Source {
  readonly counters: Counters;
  readonly #files: Map<string, Blob>;

  constructor(files: Map<string, Blob>, counters: Counters) {
    this.#files = files;
    this.counters = counters;
  }

  async get(key: string, first: number, last: number, suffix: number, _signal: AbortSignal): Promise<Reply> {
    this.counters.sent++;
    const file = this.#files.get(key);
    if (!file) { this.counters.done++; return { status: 404, bytes: new Uint8Array(0), first: 0, total: 0, etag: null }; }
    const start = suffix > 0 ? Math.max(0, file.size - suffix) : Math.max(0, first);
    const end = suffix > 0 || last < 0 ? file.size : Math.min(file.size, last + 1);
    const bytes = new Uint8Array(await file.slice(start, end).arrayBuffer());
    this.counters.done++;
    this.counters.transferred += bytes.length;
    return { status: suffix > 0 || first >= 0 ? 206 : 200, bytes, first: start, total: file.size, etag: null };
  }

  async list(prefix: string, deep: boolean): Promise<Names> {
    const start = prefix === "" ? "" : `${prefix}/`, keys: string[] = [], sizes: number[] = [], folders = new Set<string>();
    for (const [path, file] of this.#files) {
      if (!path.startsWith(start)) continue;
      const name = path.slice(start.length), slash = name.indexOf("/");
      if (deep || slash < 0) { keys.push(name); sizes.push(file.size); } else folders.add(name.slice(0, slash));
    }
    return { keys, sizes, folders: [...folders] };
  }
}
