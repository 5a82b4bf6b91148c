// The reader of Zarr Vectors stores for JavaScript: the same one as the Rust library, compiled to WebAssembly.
//
// Answers are plain objects and typed arrays whose buffers can be transferred. Ids are decimal strings or BigInt: numbers of
// JavaScript end at 2^53.

import init, { memoryBytes, openStore as openHandle, type StoreHandle } from "../pkg/zvf_wasm.js";
import { FileSource, HttpSource, newCounters } from "../src/source.ts";

/** A fault, with what is known of its cause. */
export interface FaultDocument { class: string; key: string | null; message: string; hint: string | null }

/** What every function fails with. */
export class StoreError extends Error {
  /** The class of the fault: `NotFound`, `Encoding`, `Io` and others, as the command names them. */
  readonly class: string;
  /** The object of the store that is at fault. */
  readonly key: string | null;
  /** What may help. */
  readonly hint: string | null;

  constructor(fault: FaultDocument) {
    super(fault.message);
    this.name = "StoreError";
    this.class = fault.class;
    this.key = fault.key;
    this.hint = fault.hint;
  }
}

/** Bytes of one object or a part of it, as HTTP has them: `total` is the length of all of it. */
export interface SourceReply { status: number; bytes: Uint8Array; first: number; total: number; etag: string | null }

/** Where bytes come from: keys below the store, `first` to `last` inclusive (-1: none), or the last `suffix` bytes. */
export interface ByteSource {
  /** Names below a prefix and relative to it, all of them or those directly below it. Without it, stores are read by what they
   * say of themselves: old ones that list no chunks are refused, and some edges are missing. */
  list?(prefix: string, deep: boolean): Promise<{ keys: string[]; sizes: number[] | null; folders: string[] }>;
  get(key: string, first: number, last: number, suffix: number, signal: AbortSignal): Promise<SourceReply>;
}

/** Which store: a URL, files by their paths below it (or one named `NAME.tet`), or a source of one's own. */
export type StoreLocation = string | URL | Map<string, Blob> | ByteSource;

export interface OpenOptions {
  /** Bytes of memory that reading may take. Default 128 MiB. */
  budgetBytes?: number;
  /** Requests at once over HTTP. Default 8. */
  requests?: number;
  /** The name of a pack, where a source of one's own gives one: it ends in `.tet`. */
  packName?: string;
}

export interface LevelInfo { level: number; vertices: number; error: number | null; additive: boolean; sparsity: number | null; chunkShape: number[]; binShape: number[] | null; chunks: number }
export interface AttributeInfo { scope: "vertex" | "object" | "link"; name: string; key: string; dtype: string; width: number; categories: unknown[] | null }
export interface KindInfo { kind: string; levels: LevelInfo[]; attributes: AttributeInfo[]; objects: number | null }

export interface StoreInfo {
  version: string;
  axes: { name: string; type: string; unit: string | null }[];
  bounds: [number[], number[]];
  kinds: KindInfo[];
  groups: { count: number; list: { group: number; name: string }[] } | null;
  /** Levels that cannot be read. */
  faults: { level: number; error: FaultDocument }[];
  notices: string[];
}

export interface CellRequest {
  kind: string;
  level: number;
  /** The chunk, by its position along each axis of space. */
  cell: number[];
  /** A condition, as `zvf query --where` has it. */
  where?: string;
  /** Attributes that come along, by their `key`. */
  columns?: string[];
  /** The axes that positions have: at most three; by default the first three. */
  axes?: number[];
  /** About how many vertices at most: a chunk with more is thinned. */
  limit?: number;
  /** Which part of the objects comes, between 0 and 1: the same ones in every chunk. */
  share?: number;
}

export interface Cell {
  /** What positions are relative to. */
  origin: Float64Array;
  /** Three numbers a vertex. */
  positions: Float32Array;
  /** The first so many vertices belong to the chunk; others are ends of edges and faces. */
  ownVertices: number;
  /** Vertices of the chunk that passed, before it was thinned. */
  storedVertices: number;
  /** Whether every edge and face was found: where a host cannot list, only those whose ends lie at most one chunk apart. */
  complete: boolean;
  /** What could not be read of links, and of chunks that elements and steps end in. */
  faults: FaultDocument[];
  /** The object of each vertex, as a place in `ids`; 0xffffffff without. */
  slots: Uint32Array;
  ids: BigInt64Array;
  /** The stored row of each vertex. */
  rows: Uint32Array;
  /** Two vertices each. */
  segments: Uint32Array;
  /** Three vertices each. */
  faces: Uint32Array;
  /** Faces at vertices of the chunk that other chunks have among theirs: normals need them. */
  rim: Uint32Array;
  /** The chunk of each vertex after the first `ownVertices`, by its position along each axis of space. */
  ghostCells: Int32Array;
  attributes: { name: string; width: number; values: Float32Array }[];
}

export interface Question { kind?: string; level?: number; where?: string; bbox?: [number[], number[]]; mode?: string; objects?: string[] }
export interface Counts { level: number; kind: string; vertices: number; parts: number; elements: number; complete: boolean }
export interface Plan { level: number; kind: string; chunks: number; cells: number; rows: number; requests: number; bytes: number }
export interface ObjectInfo { id: string; kind: string; row: number; bounds: [number[], number[]] | null; attributes: Record<string, unknown> }
export interface Validation { findings: unknown[] }

let loading: Promise<unknown> | null = null;

/** Loads the module; `openStore` does so itself. A page that serves it elsewhere says where. */
export function loadModule(module?: URL | string | BufferSource | WebAssembly.Module): Promise<unknown> {
  loading ??= findModule(module).then((module_or_path) => init({ module_or_path: module_or_path as any }));
  return loading;
}

async function findModule(given?: URL | string | BufferSource | WebAssembly.Module): Promise<unknown> {
  if (given !== undefined && !(given instanceof URL) && typeof given !== "string") return given;
  const url = new URL(given ?? "zvf_wasm_bg.wasm", import.meta.url);
  if (url.protocol !== "file:") return (await fetch(url)).arrayBuffer();
  // Node has no fetch of files. The name is not written as a word, so that bundlers for pages leave it alone.
  const files = "node:fs/promises";
  return (await import(files)).readFile(url);
}

/** Bytes of memory that readers hold, all together. */
export const memoryInUse = (): number => memoryBytes();

/** Opens a store. */
export async function openStore(location: StoreLocation, options: OpenOptions = {}): Promise<ZvfStore> {
  await loadModule();
  const { source, name } = sourceOf(location, options);
  return new ZvfStore(await faulty(openHandle(source, options.packName ?? name, options.budgetBytes ?? 128 * 2 ** 20)));
}

/** What is kept of the bytes that came, beside what the reader keeps. */
const KEPT_BYTES = 16 * 2 ** 20;

function sourceOf(location: StoreLocation, options: OpenOptions): { source: ByteSource; name: string } {
  if (location instanceof Map) {
    const names = [...location.keys()], pack = names.length === 1 && names[0].endsWith(".tet") ? names[0] : "";
    return { source: new FileSource(location, newCounters()), name: pack };
  }
  if (typeof location === "string" || location instanceof URL) {
    const url = new URL(location, globalThis.location?.href).href, bare = url.replace(/\/+$/, "");
    return { source: new HttpSource(url, options.requests ?? 8, KEPT_BYTES), name: bare.endsWith(".tet") ? decodeURIComponent(bare.split("/").pop()!) : "" };
  }
  return { source: location, name: "" };
}

/** Faults come as JSON text. */
async function faulty<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (typeof error !== "string") throw error;
    throw new StoreError(JSON.parse(error));
  }
}

/** An open store. */
export class ZvfStore {
  readonly #handle: StoreHandle;
  #tokens = 1;

  /** Use `openStore`. */
  constructor(handle: unknown) { this.#handle = handle as StoreHandle; }

  /** What the store holds. */
  info(): Promise<StoreInfo> { return this.#ask(this.#handle.info()); }

  /** The chunks of a level that hold something, each as many numbers as there are axes. */
  async cells(kind: string, level: number): Promise<number[][]> {
    const axes = (await this.info()).axes.length, flat = await faulty(this.#handle.cells(kind, level));
    return Array.from({ length: flat.length / axes }, (_, at) => Array.from(flat.subarray(at * axes, (at + 1) * axes)));
  }

  /** One chunk. */
  async loadCell(request: CellRequest, signal?: AbortSignal): Promise<Cell> {
    signal?.throwIfAborted();
    const token = this.#tokens++, stop = () => this.#handle.cancel(token);
    signal?.addEventListener("abort", stop);
    try {
      return (await faulty(this.#handle.loadCell(JSON.stringify(request), token))) as Cell;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /** The chunks of a level one after the other; with `bbox` those that reach into it. */
  async *stream(request: Omit<CellRequest, "cell"> & { bbox?: [number[], number[]] }, signal?: AbortSignal): AsyncGenerator<Cell & { cell: number[] }> {
    const { bbox, ...rest } = request, { kinds } = await this.info();
    const shape = kinds.find((one) => one.kind === request.kind)?.levels.find((one) => one.level === request.level)?.chunkShape ?? [];
    const meets = (cell: number[]) => !bbox || cell.every((at, i) => at * shape[i] <= bbox[1][i] && (at + 1) * shape[i] >= bbox[0][i]);
    for (const cell of (await this.cells(request.kind, request.level)).filter(meets)) yield { ...(await this.loadCell({ ...rest, cell }, signal)), cell };
  }

  /** One object: attributes, and the box of its chunks. */
  object(kind: string, level: number, id: string | bigint): Promise<ObjectInfo> { return this.#ask(this.#handle.object(kind, level, String(id))); }

  /** Objects by id, or by the value of an attribute. */
  search(text: string): Promise<{ kind: string; object: string }[]> { return this.#ask(this.#handle.search(text)); }

  /** The members of a group: ids, or a range from the first up to the second. */
  group(group: number): Promise<{ ids?: string[]; range?: [string, string] }> { return this.#ask(this.#handle.group(group)); }

  /** How many vertices, parts and elements the answer to a question has. */
  count(question: Question): Promise<Counts> { return this.#ask(this.#handle.count(JSON.stringify(question))); }

  /** What a question will read. */
  plan(question: Question): Promise<Plan> { return this.#ask(this.#handle.plan(JSON.stringify(question))); }

  /** Whether one chunk is sound. */
  validateCell(kind: string, level: number, cell: number[]): Promise<Validation> { return this.#ask(this.#handle.validateCell(kind, level, new Int32Array(cell))); }

  /** Requests and bytes so far. */
  statistics(): { requests: number; bytes: number } { return JSON.parse(this.#handle.statistics()); }

  /** Frees the memory of the reader. */
  close(): void { this.#handle.free(); }

  async #ask<T>(work: Promise<string>): Promise<T> { return JSON.parse(await faulty(work)); }
}
