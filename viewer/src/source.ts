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

/** What a reader waits for: a part from `first` to `last`, from `first` to the end (`last` is -1), the last `suffix` bytes, or all (`first` is -1). */
interface Want { first: number; last: number; suffix: number; tries: number; resolve: (reply: Reply) => void; reject: (error: unknown) => void }

/** Bytes of an object that are kept. */
interface Part { first: number; bytes: Uint8Array; used: number }

/** A request under way: a part, the last bytes (`last` is -1), or all (`first` is -1). */
interface Fetch { first: number; last: number; abort: AbortController }

/** What is known of one object: its version, its size once an answer has said it, and that there is none. */
interface Stored { url: string; etag: string | null; total: number; parts: Part[]; none: Reply | null; wants: Want[]; fetches: Fetch[] }

const DEADLINE_MS = 30_000;
const TRIES = 4;
/** How long a want waits for others of the same object: readers ask for cells beside each other within this time. */
const GATHER_MS = 12;
/** Wants this close to each other are one request, or closer than a part of what they are long. */
const GAP_BYTES = 8192;
/** The same before a want of a row, which may be one of hundreds: what lies between them would be most of what comes. */
const ROW_GAP_BYTES = 2048;
const ROW_BYTES = 64;
const GAP_SHARE = 1 / 8;
/** One request has no more than this, unless one want has. */
const RUN_BYTES = 2 * 2 ** 20;
/** Requests of one object under way at once: what is wanted of it meanwhile becomes few requests. Where many are needed, a part of them. */
const FETCHES = 2;
const FETCHES_SHARE = 1 / 8;
/** The end of an object is asked for with what lies before it: an index of a shard that is small comes with the shard. */
const TAIL_BYTES = 32 * 1024;
/** Objects up to this size are fetched whole. */
const SMALL_BYTES = 64 * 1024;
/** Objects that are asked for again where something does not fit together. */
const CHECKED = 32;
/** Bytes that are kept of a host without ranges, which sends objects whole. */
const WHOLE_BYTES = 128 * 2 ** 20;

/** Objects below a URL, for all readers of the page. What several ask for is fetched once, what lies side by side is one request, and
 * what nobody waits for any more is not fetched. A request that fails in passing is sent again. `keys` is the address that lists names,
 * where the host has one. */
export class HttpSource implements Source {
  readonly counters: Counters = newCounters();
  /** The last answers, the newest last. */
  readonly recent: Answered[] = [];
  readonly list?: (prefix: string, deep: boolean) => Promise<Names>;
  /** Told when the counters have changed. */
  onChange: () => void = () => {};
  readonly #base: string;
  readonly #atOnce: number;
  readonly #cacheBytes: number;
  readonly #objects = new Map<string, Stored>();
  /** Objects that somebody waits for, who came first first. */
  readonly #asked = new Set<Stored>();
  readonly #names = new Map<string, Promise<Names>>();
  #held = 0;
  #clock = 0;
  #timer = 0;
  #hasRanges = true;

  constructor(base: string, atOnce: number, cacheBytes: number, keys: string | null = null) {
    this.#base = base.replace(/\/+$/, "");
    this.#atOnce = atOnce;
    this.#cacheBytes = cacheBytes;
    if (keys) this.list = (prefix, deep) => this.#list(keys, prefix, deep);
  }

  /** Bytes that are kept. */
  get held(): number { return this.#held; }

  get(key: string, first: number, last: number, suffix: number, signal: AbortSignal): Promise<Reply> {
    // A store in one file is its own base: its only key is its name.
    const url = this.#base.endsWith(".tet") || key === "" ? this.#base : `${this.#base}/${key.split("/").map(encodeURIComponent).join("/")}`;
    let object = this.#objects.get(url);
    if (!object) this.#objects.set(url, (object = { url, etag: null, total: -1, parts: [], none: null, wants: [], fetches: [] }));
    const stored = object;
    return new Promise((resolve, reject) => {
      const want: Want = { first, last, suffix, tries: 0, resolve, reject };
      if (signal.aborted) { reject(signal.reason); return; }
      const reply = this.#answer(stored, want);
      if (reply) { resolve(reply); return; }
      stored.wants.push(want);
      this.#asked.add(stored);
      signal.addEventListener("abort", () => { if (remove(stored.wants, want)) { reject(signal.reason); this.#giveUp(stored); } });
      this.#schedule();
    });
  }

  /** Aborts what is under way for nobody. */
  #giveUp(object: Stored): void {
    for (const fetch of object.fetches) if (!object.wants.some((want) => meets(object, want, fetch))) fetch.abort.abort(new Error("no longer wanted"));
    if (!object.wants.length) this.#asked.delete(object);
    this.#changed();
  }

  /** What is wanted, out of what is kept. */
  #answer(object: Stored, want: Want): Reply | null {
    if (object.none) return copyOf(object.none);
    const { total, etag } = object, [from, to] = spanOf(object, want);
    if (total < 0) return null;
    if (from >= total && total > 0) return { status: 416, bytes: new Uint8Array(0), first: 0, total, etag };
    const bytes = new Uint8Array(Math.max(0, to - from + 1));
    for (let at = from; at <= to; ) {
      const part = object.parts.find(({ first, bytes }) => first <= at && first + bytes.length > at);
      if (!part) return null;
      const some = part.bytes.subarray(at - part.first, to + 1 - part.first);
      bytes.set(some, at - from);
      part.used = ++this.#clock;
      at += some.length;
    }
    return { status: want.first < 0 && !want.suffix ? 200 : 206, bytes, first: from, total, etag };
  }

  #schedule(): void {
    this.#changed();
    this.#timer ||= setTimeout(() => { this.#timer = 0; this.#send(); }, GATHER_MS) as unknown as number;
  }

  /** Sends requests for what is wanted, as many as may be under way. */
  #send(): void {
    for (const object of this.#asked) {
      const runs = missing(object), most = Math.max(FETCHES, runs.length * FETCHES_SHARE);
      for (const [first, last] of runs) {
        if (object.fetches.length >= most) break;
        if (this.counters.inFlight >= this.#atOnce) { this.#changed(); return; }
        void this.#fetch(object, first, last);
      }
    }
    this.#changed();
  }

  async #fetch(object: Stored, first: number, last: number): Promise<void> {
    const fetch: Fetch = { first, last, abort: new AbortController() };
    object.fetches.push(fetch);
    this.counters.inFlight++;
    const range = first < 0 ? (last < 0 ? null : `bytes=-${last}`) : `bytes=${first}-${last < 0 ? "" : last}`;
    const served = object.wants.filter((want) => meets(object, want, fetch));
    let outcome: { reply: Reply } | { error: unknown };
    try {
      outcome = { reply: await this.#tries(object.url, range, fetch.abort.signal) };
    } catch (error) {
      outcome = { error };
    }
    this.counters.inFlight--;
    remove(object.fetches, fetch);
    if ("reply" in outcome) this.#keep(object, outcome.reply, range !== null);
    for (const want of served) {
      if (!object.wants.includes(want)) continue;
      if ("error" in outcome) want.reject(outcome.error);
      else if (outcome.reply.status >= 400) want.resolve(copyOf(outcome.reply));
      else if (holds(outcome.reply, fetch) || ++want.tries < TRIES) continue;
      else want.reject(new Error(`${object.url} has answered other parts than were asked for`));
      remove(object.wants, want);
    }
    for (const want of [...object.wants]) {
      const reply = this.#answer(object, want);
      if (reply) { remove(object.wants, want); want.resolve(reply); }
    }
    if (!object.wants.length) this.#asked.delete(object);
    this.#evict();
    this.#schedule();
  }

  /** Keeps what came, as a part of its object. */
  #keep(object: Stored, reply: Reply, isPart: boolean): void {
    const { status, bytes, first, total, etag } = reply;
    if (NONE.includes(status)) { object.none = reply; return; }
    if (status >= 400) return;
    this.#note(object, etag);
    if (status === 200 && isPart && bytes.length > SMALL_BYTES) this.#hasRanges = false;
    object.total = total;
    object.none = null;
    object.parts = object.parts.filter((part) => {
      const isWithin = part.first >= first && part.first + part.bytes.length <= first + bytes.length;
      if (isWithin) this.#held -= part.bytes.length;
      return !isWithin;
    });
    object.parts.push({ first, bytes, used: ++this.#clock });
    this.#held += bytes.length;
  }

  /** An object of another version than before: what is kept of it goes. */
  #note(object: Stored, etag: string | null): void {
    if (etag && object.etag && object.etag !== etag) { this.counters.changed++; this.#drop(object); }
    object.etag = etag;
    this.#objects.delete(object.url); // the latest is last
    this.#objects.set(object.url, object);
  }

  #drop(object: Stored): void {
    for (const { bytes } of object.parts) this.#held -= bytes.length;
    object.parts = [];
    object.total = -1;
    object.none = null;
  }

  /** Lets go of what was used longest ago. */
  #evict(): void {
    const most = this.#hasRanges ? this.#cacheBytes : Math.max(this.#cacheBytes, WHOLE_BYTES);
    if (this.#held <= most) return;
    const parts = [...this.#objects.values()].flatMap((object) => object.parts.map((part) => ({ object, part }))).sort((a, b) => a.part.used - b.part.used);
    for (const { object, part } of parts.slice(0, -1)) {
      if (this.#held <= most * 0.8) return;
      remove(object.parts, part);
      this.#held -= part.bytes.length;
    }
  }

  /** Asks anew for everything: what could not be read may be there now. */
  forget(): void {
    for (const object of this.#objects.values()) this.#drop(object);
    this.#names.clear();
  }

  /** Looks whether any of the objects that were read last was replaced since. */
  async check(): Promise<boolean> {
    const signal = new AbortController().signal, known = [...this.#objects.values()].filter(({ etag }) => etag).slice(-CHECKED);
    await Promise.all(known.map(async (object) => { try { this.#note(object, (await this.#tries(object.url, "bytes=0-0", signal)).etag); } catch { /* what is gone is said elsewhere */ } }));
    for (const object of this.#objects.values()) object.none = null;
    return this.counters.changed > 0;
  }

  #changed(): void {
    let queued = 0;
    for (const { wants } of this.#asked) queued += wants.length;
    this.counters.queued = queued;
    this.onChange();
  }

  #list(keys: string, prefix: string, deep: boolean): Promise<Names> {
    const url = `${keys}?prefix=${encodeURIComponent(prefix)}&deep=${deep}`, known = this.#names.get(url);
    if (known) return known;
    const asked = this.#tries(url, null, new AbortController().signal).then(({ status, bytes }) => {
      if (status !== 200) throw new Error(`the names below ${prefix} cannot be listed: status ${status}`);
      return JSON.parse(new TextDecoder().decode(bytes)) as Names;
    });
    this.#names.set(url, asked);
    asked.catch(() => this.#names.delete(url));
    return asked;
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
/** What is not there; hosts of public files often refuse to say that. */
const NONE = [403, 404, 410];

function remove<T>(list: T[], one: T): boolean {
  const at = list.indexOf(one);
  if (at >= 0) list.splice(at, 1);
  return at >= 0;
}

/** An answer for one reader, which takes its bytes away. */
const copyOf = (reply: Reply): Reply => ({ ...reply, bytes: reply.bytes.slice() });

/** The first and the last byte of what is wanted, as far as the size is known. */
function spanOf({ total }: Stored, { first, last, suffix }: Want): [number, number] {
  const end = total < 0 ? Infinity : total - 1;
  if (suffix) return [total < 0 ? 0 : Math.max(0, total - suffix), end];
  return [Math.max(0, first), last < 0 ? end : Math.min(last, end)];
}

/** Whether a request brings anything of what is wanted. */
function meets(object: Stored, want: Want, { first, last }: Fetch): boolean {
  if (first < 0) return true;
  const [from, to] = spanOf(object, want);
  return from <= (last < 0 ? Infinity : last) && to >= first;
}

/** Whether an answer has what its request asked for, as far as there is so much. */
const holds = ({ first, bytes, total }: Reply, asked: Fetch): boolean => asked.first < 0 || (first <= asked.first && first + bytes.length > (asked.last < 0 ? total - 1 : Math.min(asked.last, total - 1)));

/** The requests that an object needs: what is wanted, neither kept nor under way, and what lies between. `[-1, n]` are the last
 * n bytes, `[-1, -1]` is all. */
function missing(object: Stored): [number, number][] {
  const { total, wants, parts, fetches } = object;
  // What comes says how large the object is, and may be all of it.
  if (fetches.some(({ first }) => first < 0)) return [];
  if (total < 0 && wants.some(({ first, suffix }) => first < 0 && !suffix)) return fetches.length ? [] : [[-1, -1]];
  const longest = Math.max(...wants.map(({ suffix }) => suffix));
  if (total < 0 && longest > 0) return [[-1, Math.max(longest, TAIL_BYTES)]];
  const there = [...parts.map(({ first, bytes }) => [first, first + bytes.length - 1]), ...fetches.map(({ first, last }) => [first, last < 0 ? Infinity : last])];
  const gaps: [number, number][] = [];
  for (const span of total >= 0 && total <= SMALL_BYTES ? [[0, total - 1]] : wants.map((want) => spanOf(object, want))) {
    let rest = [span];
    for (const [low, high] of there) rest = rest.flatMap(([from, to]) => (low > to || high < from ? [[from, to]] : [[from, low - 1], [high + 1, to]].filter(([a, b]) => a <= b)));
    gaps.push(...(rest as [number, number][]));
  }
  const runs: [number, number][] = [];
  for (const [from, to] of gaps.sort((a, b) => a[0] - b[0])) {
    const run = runs.at(-1), length = run ? run[1] - run[0] + 1 : 0, gap = to - from < ROW_BYTES ? ROW_GAP_BYTES : GAP_BYTES;
    if (run && to <= run[1]) continue;
    if (run && from - run[1] - 1 <= Math.max(gap, length * GAP_SHARE) && to - run[0] < RUN_BYTES) run[1] = to;
    else runs.push([run ? Math.max(from, run[1] + 1) : from, to]);
  }
  return runs.map(([from, to]) => [from, to === Infinity ? -1 : to]);
}

function replyOf(answer: Response, bytes: Uint8Array, url: string): Reply {
  const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(answer.headers.get("Content-Range") ?? "");
  // Caches of browsers answer with the right head and a body that is empty or short.
  if (answer.status === 206 && range && bytes.length !== Number(range[2]) - Number(range[1]) + 1) throw new Error(`the body has ${bytes.length} bytes, its head says ${range[0]}`);
  if (answer.status === 206 && !range) throw new Error("the answer does not show its Content-Range, which its host has to expose to other pages");
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
