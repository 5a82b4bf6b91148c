// What a user of the package writes, so that a change of its types is seen. Checked, never run.

import { openStore, StoreError, type Cell, type StoreInfo } from "./index.ts";

export async function countVertices(url: string, signal: AbortSignal): Promise<number> {
  const store = await openStore(url, { budgetBytes: 64 * 2 ** 20 }), info: StoreInfo = await store.info(), [{ kind, levels }] = info.kinds;
  let vertices = 0;
  try {
    for await (const cell of store.stream({ kind, level: levels[0].level, bbox: info.bounds, where: "x > 1" }, signal)) {
      const { positions, ids, cell: place }: Cell & { cell: number[] } = cell;
      vertices += positions.length / 3 + (ids[0] === 9007199254740993n ? 0 : 0) + place.length * 0;
    }
    const { bounds, attributes } = await store.object(kind, 0, 7n), { bytes } = await store.plan({ bbox: bounds ?? undefined });
    return vertices + bytes + Object.keys(attributes).length;
  } catch (error) {
    if (error instanceof StoreError) throw new Error(`${error.class}: ${error.hint ?? ""}`);
    throw error;
  } finally {
    store.close();
  }
}
