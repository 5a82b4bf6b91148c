// What is known of requests and memory, summed over workers.

import { newCounters, REMEMBERED, type Answered, type Counters } from "./source.ts";

/** What was asked for, and the memory that is held: of readers (`wasm`) and of bytes that are kept (`cache`). Of two states of one
 * worker the one with the larger `order` is newer. */
export interface Status { counters: Counters; wasm: number; cache: number; recent: Answered[]; order: number }

export const newStatus = (): Status => ({ counters: newCounters(), wasm: 0, cache: 0, recent: [], order: 0 });

export function sumUp(all: Status[]): Status {
  const sum = newStatus();
  for (const { counters, wasm, cache, recent } of all) {
    sum.wasm += wasm;
    sum.cache += cache;
    sum.recent.push(...recent);
    for (const key of Object.keys(counters) as (keyof Counters)[]) sum.counters[key] += counters[key];
  }
  sum.recent = sum.recent.sort((a, b) => a.at - b.at).slice(-REMEMBERED);
  return sum;
}
