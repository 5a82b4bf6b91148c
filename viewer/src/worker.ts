// A worker: one reader in its own memory, asked by messages.

import init, { memoryBytes, openStore, type StoreHandle } from "../pkg/zvf_wasm.js";
import { PortSource, SourceHost } from "./ports.ts";
import { FileSource, HttpSource, newCounters } from "./source.ts";
import { newStatus } from "./status.ts";

const counters = newCounters();
let store: StoreHandle | null = null;
let source: PortSource | null = null;
let host: SourceHost | null = null;
let ready: Promise<unknown> | null = null;
let opening: Promise<unknown> = Promise.resolve();

export interface Call { id: number; op: string; args: any[] }

async function run(op: string, args: any[], id: number): Promise<{ value: any; transfer?: Transferable[] }> {
  if (op === "open") {
    const { wasm, port, files, name, canList, budget } = args[0];
    ready ??= init({ module_or_path: wasm });
    await ready;
    source = port ? new PortSource(port, canList) : null;
    store = await openStore(source ?? new FileSource(files, counters), name, budget);
    return { value: null };
  }
  // A worker that took the place of another is asked before it has opened the store.
  await opening;
  if (!store) throw new Error("no store is open");
  switch (op) {
    case "info": return { value: JSON.parse(await store.info()) };
    case "cells": { const cells = await store.cells(args[0], args[1]); return { value: cells, transfer: [cells.buffer as ArrayBuffer] }; }
    case "loadCell": {
      const cell = await store.loadCell(JSON.stringify(args[0]), id);
      const arrays = [cell.origin, cell.positions, cell.slots, cell.ids, cell.rows, cell.segments, cell.faces, ...cell.attributes.map((a: any) => a.values)];
      return { value: cell, transfer: arrays.map((array: any) => array.buffer) };
    }
    case "object": return { value: JSON.parse(await store.object(args[0], args[1], args[2], args[3])) };
    case "search": return { value: JSON.parse(await store.search(args[0])) };
    case "group": return { value: JSON.parse(await store.group(args[0])) };
    case "count": return { value: JSON.parse(await store.count(JSON.stringify(args[0]))) };
    case "plan": return { value: JSON.parse(await store.plan(JSON.stringify(args[0]))) };
    case "validateCell": return { value: JSON.parse(await store.validateCell(args[0], args[1], new Int32Array(args[2]))) };
    default: throw new Error(`unknown operation ${op}`);
  }
}

self.onmessage = async (event: MessageEvent<Call>) => {
  const { id, op, args } = event.data;
  if (op === "cancel") { store?.cancel(args[0]); return; }
  if (op === "host") { const { url, keys, atOnce, cache } = args[0]; host = new SourceHost(new HttpSource(url, atOnce, cache, keys), (status) => self.postMessage({ id: 0, status })); return; }
  if (host) {
    if (op === "port") host.serve(args[0]);
    else if (op === "forget") host.source.forget();
    else { const value = await host.source.check(); self.postMessage({ id, value, status: host.status() }); }
    return;
  }
  const status = () => ({ ...newStatus(), counters: { ...counters }, wasm: ready ? safeMemory() : 0 }), seen = () => source?.seen ?? null;
  try {
    const running = run(op, args, id);
    if (op === "open") opening = running.catch(() => {});
    const { value, transfer } = await running;
    self.postMessage({ id, value, status: status(), seen: seen() }, { transfer: transfer ?? [] });
  } catch (error) {
    self.postMessage({ id, fault: faultOf(error), status: status(), seen: seen() });
  }
};

function safeMemory(): number {
  try { return memoryBytes(); } catch { return 0; }
}

/** The reader says faults as JSON text; everything else is a fault of the page. */
function faultOf(error: unknown): { class: string; key: string | null; message: string; hint: string | null } {
  if (typeof error === "string") {
    try { return JSON.parse(error); } catch { return { class: "Io", key: null, message: error, hint: null }; }
  }
  return { class: "Io", key: null, message: (error as Error)?.message ?? String(error), hint: null };
}
