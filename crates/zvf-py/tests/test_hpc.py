"""API 1.3 of zarr-vectors: a level that several processes fill, against brute force, zarr-vectors itself, and what is refused."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zarr_vectors as reference
import zvf
import zvf.compat as zv
from zvf.compat import building as zb
from zvf.compat.core import object_layer
from zvf.compat.core.link_groups import index_fragment_link_groups
from zvf.compat.core.linking import partition_links
from zvf.compat.exceptions import ArrayError, ConcurrentEditError, ShardOwnershipError, StoreError, ZVError

BOUNDS, CHUNK, WORKERS, OBJECTS = ([-50.0] * 3, [99.0] * 3), (25.0,) * 3, 3, 40


def paths():
    """Paths through space by object, and their lengths."""
    rng = np.random.default_rng(7)
    return [np.clip(rng.uniform(-50, 95, 3) + np.cumsum(rng.normal(0, 9, (rng.integers(2, 20), 3)), axis=0), -50, 99).astype("f4") for _ in range(OBJECTS)]


def plan():
    """By chunk, the fragments, one for each object; by object, its manifest; the ends of links: chunks and rows."""
    fragments, manifests, chunks, vids, rows = {}, {}, [], [], {}
    for number, path in enumerate(paths()):
        cells = [tuple(cell) for cell in np.floor(path / CHUNK).astype(int).tolist()]
        for cell in dict.fromkeys(cells):
            fragments.setdefault(cell, []).append(path[[c == cell for c in cells]])
            manifests.setdefault(number, []).append((cell, len(fragments[cell]) - 1))
        at = [rows.setdefault(cell, itertools.count()).__next__() for cell in cells]
        chunks += itertools.pairwise(cells)
        vids += itertools.pairwise(at)
    return fragments, manifests, np.array(chunks), np.array(vids)


def arrays_of(manifests, numbers):
    coords, frags = zip(*(pair for n in numbers for pair in manifests[n]))
    return {"chunk_coords": coords, "fragment_idx": frags, "manifest_offsets": np.cumsum([0, *(len(manifests[n]) for n in numbers)])}


def work(path, worker, sharded, lo, hi, block_at):
    """One process: its cells, the links that belong to them, and the rows of its objects."""
    level = zb.get_resolution_level(zb.open_store(path, mode="r+"), 0)
    fragments, manifests, chunks, vids = plan()
    anchors = [min(map(tuple, pair)) for pair in chunks.tolist()]
    shard = lambda cell: tuple((c + 2) // 2 for c in cell)  # noqa: E731
    own = lambda cell: sum(shard(cell)) % WORKERS == worker  # noqa: E731
    written = {}

    def write(mine):
        for cell, groups in fragments.items():
            if mine(cell):
                zb.write_chunk_vertices(level, cell, groups, record_presence=False)
                zb.write_chunk_attributes(level, "x", cell, [group[:, 0] for group in groups], record_presence=False)
        pick = np.array([mine(cell) for cell in anchors])
        zb.write_link_cells(level, chunks=chunks[pick], vids=vids[pick], attributes={"w": vids[pick].sum(axis=1).astype("f4")}, allocate=False)

    if sharded:
        for place in sorted({shard(cell) for cell in fragments if own(cell)}):
            with zb.shard_transaction(level, place, io_threads=2) as transaction:
                write(lambda cell: shard(cell) == place)
            for name, keys in transaction.written.items():
                written.setdefault(name, []).extend(keys)
    else:
        with zb.open_write_session(level, bounds=BOUNDS, chunk_shape=CHUNK):
            write(own)
    zb.write_object_manifests(level, **arrays_of(manifests, range(lo, hi)), mode="place", at=lo, block_at=block_at)
    zb.write_object_attribute_columns(level, {"n": np.array([len(paths()[n]) for n in range(lo, hi)], "i4")}, mode="place", at=lo)
    return written


@pytest.mark.parametrize("sharded", [False, True], ids=["files", "shards"])
@pytest.mark.parametrize("layout", ["vlen", "dense"])
def test_a_level_that_processes_fill_is_sound_and_has_every_value(tmp_path, layout, sharded):
    path = str(tmp_path / "made.zarrvectors")
    fragments, manifests, chunks, vids = plan()
    root = zb.create_store(path, bounds=BOUNDS, chunk_shape=CHUNK, geometry_types=["graph"], links_convention="explicit", manifest_layout=layout, shard_shape=2 if sharded else None)
    level = zb.get_resolution_level(root, 0)
    zb.create_resolution_level(root, 0, zb.LevelMetadata(level=0, vertex_count=0, arrays_present=["vertices"]))
    zb.create_vertices_array(level, dtype="float32")
    zb.create_attribute_array(level, "x", dtype="float32")
    zb.defer_presence(level)
    steps = {tuple((b - a).tolist()) for a, b in chunks} | {tuple((a - b).tolist()) for a, b in chunks}
    for step in sorted(s for s in steps if s >= (0, 0, 0)):
        zb.create_links_array(level, 2, sid_ndim=3, offsets=[step])
        zb.create_link_attributes_array(level, "w", "float32", offsets=[step])
    with zb.object_manifest_writer(level, at=0) as writer:  # the first objects come as a stream
        for number in range(10):
            writer.write(**arrays_of(manifests, [number]))
    assert (writer.first_row, writer.end) == (0, 10) and zb.object_count(level) == 0
    cuts, lengths = [10, 20, 31, OBJECTS], np.array([len(line) for line in paths()], "i4")
    starts = [sum(len(manifests[n]) for n in range(cut)) for cut in cuts]
    zb.reserve_object_rows(level, OBJECTS, n_blocks=starts[-1], columns={"n": "int32"})
    zb.write_object_attributes(level, "n", lengths[:10], mode="place", at=0)
    assert zb.store_layout(root).min_reader == ("0.9.4" if layout == "dense" else "0.9.3") and zb.store_layout(level).presence_deferred
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        reports = pool.starmap(work, [(path, w, sharded, cuts[w], cuts[w + 1], starts[w]) for w in range(WORKERS)], chunksize=1)
    level = zb.get_resolution_level(zb.open_store(path, mode="r+"), 0)
    assert zb.finalize_links(level, delta=0).num_links == len(vids)
    if sharded:  # the workers said what they wrote
        names = zb.per_chunk_array_paths(level)
        said = {name: [key for report in reports for key in report.get(name, ())] for name in names}
        assert {name: sorted(keys) for name, keys in said.items()} == {name: level.list_chunks(name) for name in names}
        zb.set_presence(level, said, end_deferral=True)
    else:
        zb.rebuild_presence(level)
    zb.commit_object_index(level, OBJECTS)
    zb.refresh_arrays_present(level)
    zb.update_level_metadata(level, vertex_count=int(lengths.sum()))
    assert level.list_chunks("vertices") == sorted(".".join(map(str, cell)) for cell in fragments) and not level.presence_deferred()
    ds = zvf.open(path)
    assert ds.validate(level=5).ok, ds.validate(level=5).findings
    for number, line in enumerate(paths()):
        found = ds.read(objects=[number], attributes=["x", "object.n"])
        wanted = np.concatenate([fragments[cell][f] for cell, f in sorted(manifests[number])])
        assert np.array_equal(found.positions, wanted) and np.array_equal(found["x"], wanted[:, 0]) and set(found["object.n"].tolist()) == {len(line)}
        ends = [sorted(map(tuple, pair)) for pair in found.positions[found.edges].tolist()]
        assert sorted(ends) == sorted(sorted(map(tuple, pair)) for pair in np.stack([line[:-1], line[1:]], axis=1).tolist())
    cells = sorted(fragments)
    batch = zb.read_cells(level, [*cells, (9, 9, 9)], ["vertices", "vertex_attributes/x", "links/0/0.0.0"], fragments=True)
    assert not batch.errors and all(np.array_equal(batch["vertices"].rows(i), np.concatenate(fragments[cell])) for i, cell in enumerate(cells))
    assert np.diff(batch.fragments.cell_offsets).tolist() == [len(fragments[cell]) for cell in cells] + [0]
    csr = zb.read_object_manifests_csr(level, [31, 2])
    assert [(tuple(c), f) for c, f in zip(csr.chunk_coords.tolist(), csr.fragment_idx.tolist())] == manifests[31] + manifests[2]
    assert zb.store_layout(level).min_reader == ("0.9.4" if layout == "dense" else "0.9.0")

    if layout == "vlen":  # which zarr-vectors 0.9.2 reads
        old = reference.building.get_resolution_level(reference.building.open_store(path), 0)
        assert [reference.building.read_object_manifests(old, ids=[n])[n] for n in (0, 17)] == [manifests[0], manifests[17]]
        assert np.array_equal(np.concatenate(reference.building.read_object_vertices(old, 17)), np.concatenate([fragments[c][f] for c, f in manifests[17]]))
        assert np.array_equal(reference.building.read_object_attributes(old, "n"), lengths)
        links = [sorted((tuple(map(int, c)), int(v)) for c, v in record) for record in reference.building.read_links(old)]
        assert sorted(links) == sorted(sorted(zip(map(tuple, a), b)) for a, b in zip(chunks.tolist(), vids.tolist()))


@pytest.mark.parametrize(("width", "directed"), [(2, False), (3, False), (2, True), (1, False)])
def test_links_go_where_zarr_vectors_puts_them(tmp_path, width, directed):
    from zarr_vectors.spatial.boundary import partition_records_by_offset

    rng = np.random.default_rng(width)
    chunks = rng.integers(0, 4, (60, 1, 3)) + rng.integers(-1, 2, (60, width, 3)) * (rng.random((60, 1, 1)) < 0.7)
    vids = rng.integers(0, 4, (60, width))
    level = zb.get_resolution_level(zb.create_store(tmp_path / "a", bounds=([-50.0] * 3, [150.0] * 3), chunk_shape=CHUNK), 0)
    records = [list(zip(map(tuple, c), v)) for c, v in zip(chunks.tolist(), vids.tolist())]
    want = partition_records_by_offset(records, width, 3, scale_src=(1, 1, 1), scale_trg=(1, 1, 1), directed=directed)
    got = partition_links(level, chunks, vids, 0, directed)
    rows = {place: [([perm, *v] if links.shape[1] > width else list(v), n) for v, perm, n in want[place]] for place, (links, _) in got.items()}
    assert set(got) == set(want) and {place: list(zip(links.tolist(), numbers)) for place, (links, numbers) in got.items()} == rows
    for _ in range(2):
        zb.write_link_cells(level, chunks=chunks, vids=vids, attributes={"w": vids.astype("i2")}, directed=directed)
    assert zb.finalize_links(level).num_links == 120


@pytest.mark.parametrize(("layout", "ids"), [("vlen", None), ("dense", None), ("dense", 1000)])
def test_a_stream_of_manifests_stores_what_single_calls_store(tmp_path, monkeypatch, layout, ids):
    monkeypatch.setattr(object_layer, "FLUSH_ROWS", 20_000)
    rng, done, writes = np.random.default_rng(3), 0, []
    while done < 70_000:
        counts = rng.integers(0, 3, rng.integers(0, 9_000))
        writes.append({"chunk_coords": rng.integers(0, 2, (counts.sum(), 3)), "fragment_idx": rng.integers(0, 99, counts.sum()), "manifest_offsets": np.cumsum([0, *counts])})
        writes[-1] |= {} if ids is None else {"ids": ids + done + np.arange(len(counts))}
        done += len(counts)
    calls, level = (zb.get_resolution_level(zb.create_store(tmp_path / name, bounds=BOUNDS, chunk_shape=CHUNK, manifest_layout=layout), 0) for name in "ab")
    at = 0
    for words in writes:
        at = sum(zb.write_object_manifests(calls, **words, mode="append", at=at))
    zb.commit_object_index(calls, done)
    with pytest.raises(KeyError), zb.object_manifest_writer(level, at=0) as writer:
        for words in writes[:9]:
            writer.write(**words)
        raise KeyError  # a writer that dies leaves rows behind the committed count; the next one replaces them
    with zb.object_manifest_writer(level, at=0, commit=True) as writer:
        for words in writes:
            writer.write(**words)
    assert writer.flushes > 2 and writer.end == done
    stored = [{p.relative_to(one.path): p.read_bytes() for p in (one.path / "object_index").rglob("*") if p.is_file()} for one in (calls, level)]
    assert stored[0] == stored[1]
    csr, offsets = zb.read_all_object_manifests_csr(level), np.cumsum([0, *(n for words in writes for n in np.diff(words["manifest_offsets"]))])
    assert np.array_equal(csr.offsets, offsets) and np.array_equal(csr.fragment_idx, np.concatenate([words["fragment_idx"] for words in writes]))
    assert csr.object_ids is None if layout == "vlen" else np.array_equal(csr.object_ids, (ids or 0) + np.arange(done))


def test_groups_of_links_follow_fragments(tmp_path):
    level = zb.get_resolution_level(zb.create_store(tmp_path / "a", bounds=BOUNDS, chunk_shape=CHUNK, geometry_types=["graph"], links_convention="explicit"), 0)
    xyz = np.random.default_rng(0).uniform(0, 25, (6, 3))
    zb.write_chunk_vertices(level, (0, 0, 0), [xyz[:3], xyz[3:]])
    zb.write_link_cells(level, chunks=np.zeros((4, 2, 3), int), vids=[[3, 4], [0, 1], [4, 5], [1, 2]])
    zb.finalize_links(level)
    zb.update_level_metadata(level, vertex_count=6, arrays_present=["vertices", "links"])
    copy = shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert index_fragment_link_groups(copy)[0]["stamped"] and zvf.open(copy).validate(level=5).ok
    grouped = zb.get_resolution_level(zb.open_store(copy, mode="r+"), 0)
    assert zb.read_cells(grouped, [(0, 0, 0)], ["links/0/0.0.0"])["links/0/0.0.0"].data.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]]
    with pytest.raises(StoreError, match="has a journal"):
        zb.write_link_cells(grouped, chunks=np.zeros((1, 2, 3), int), vids=[[0, 5]])
    zb.update_level_metadata(level, fragment_link_groups=True, fragments_tile=True)
    zb.write_link_cells(level, chunks=np.zeros((1, 2, 3), int), vids=[[0, 5]])  # a write that knows nothing of a claim takes it back
    assert "fragment_link_groups" not in level.attrs["zarr_vectors_level"] and level.attrs["zarr_vectors_level"]["fragments_tile"]


def refusals(level):
    cuda, foreign, cell = SimpleNamespace(__cuda_array_interface__={}), SimpleNamespace(__dlpack_device__=lambda: (2, 0)), (0, 0, 0)
    yield ArrayError, "device", lambda: zb.read_cells(level, [cell], device="cuda")
    yield ArrayError, "on a CUDA device", lambda: zb.read_cells(level, cuda)
    yield ArrayError, "on the device 2", lambda: zb.write_chunk_vertices(level, cell, [foreign])
    yield ArrayError, "on a CUDA device", lambda: zb.write_object_manifests(level, chunk_coords=cuda, fragment_idx=[0], mode="append")
    yield ArrayError, "on the device 2", lambda: zb.write_link_cells(level, chunks=foreign, vids=foreign)
    yield ArrayError, "not both", lambda: zb.write_link_cells(level, [[(cell, 1), (cell, 2)]], 3, chunks=[[cell, cell]], vids=[[1, 2]])
    yield ArrayError, "no cell of a grid", lambda: zb.write_chunk_vertices(level, (9, 0, 0), [[[0, 0, 0]]])
    yield ArrayError, "create function", lambda: zb.write_chunk_attributes(level, "none", cell, [[1.0]])
    yield ArrayError, "int16 holds", lambda: zb.write_chunk_attributes(level, "small", cell, [[70_000]])
    yield ArrayError, "reserve_object_rows", lambda: zb.write_object_manifests(level, chunk_coords=[cell] * 9, fragment_idx=range(9), mode="place", at=3)
    yield ArrayError, "not reserved", lambda: zb.write_object_attribute_columns(level, {"other": [1]}, mode="place", at=0)
    yield ArrayError, "hold no manifest", lambda: zb.commit_object_index(level, 4)
    yield ArrayError, "committed", lambda: zb.write_object_manifests(level, chunk_coords=[cell], fragment_idx=[0], mode="append", at=0)
    yield ArrayError, "positionally", lambda: zb.write_object_manifests(level, chunk_coords=[cell], fragment_idx=[0], ids=[70], mode="append", at=1)
    yield StoreError, "defer_presence", lambda: zb.shard_transaction(level, cell).__enter__()
    yield ArrayError, "no cell of a grid", lambda: zb.set_presence(level, {"vertices": ["0.0.0", "7.7.7"]})
    yield AttributeError, "write_link_cells, then finalize_links", lambda: zb.write_links
    yield ImportError, "device-decode", lambda: zv.require_api(">=1.3", features=["read-cells", "device-decode"])
    yield PermissionError, "read-only", lambda: zb.write_chunk_vertices(zb.get_resolution_level(zb.open_store(level._shared.address), 0), cell, [])


def test_what_is_refused(tmp_path):
    root = zb.create_store(tmp_path / "a", bounds=BOUNDS, chunk_shape=CHUNK)
    level = zb.get_resolution_level(root, 0)
    zb.create_vertices_array(level)
    zb.create_attribute_array(level, "small", "int16")
    zb.reserve_object_rows(level, 4)
    zb.write_object_manifests(level, chunk_coords=[(0, 0, 0)], fragment_idx=[0], mode="place", at=0)
    zb.commit_object_index(level, 1)
    for kind, words, call in refusals(level):
        with pytest.raises(kind, match=words):
            call()
            pytest.fail(f"not refused: {words}")
    assert zv.concurrency_contract()["at_alignment"] == 65_536 and not zv.runtime_capabilities()["device_decode"]
    zv.require_api(">=1.3,<2", features=sorted(zv.FEATURES))


def test_a_shard_that_another_writer_changed_is_not_overwritten(tmp_path):
    root = zb.create_store(tmp_path / "a", bounds=BOUNDS, chunk_shape=CHUNK, shard_shape=2)
    level = zb.get_resolution_level(root, 0)
    zb.create_vertices_array(level)
    zb.defer_presence(level)
    zb.write_chunk_vertices(level, (0, 0, 0), [[[1, 2, 3]]])
    with pytest.raises(ConcurrentEditError, match="another writer"), zb.shard_transaction(level, zb.shard_of(level, (0, 0, 0))):
        zb.write_chunk_vertices(level, (0, 0, 1), [[[1, 2, 30]]])
        zb.write_chunk_vertices(zb.get_resolution_level(root, 0), (0, 1, 0), [[[1, 30, 3]]])
    assert level.list_chunks("vertices") == ["0.0.0", "0.1.0"] and not list((tmp_path / "a").rglob("*.partial"))
    with pytest.raises(ShardOwnershipError), zb.shard_transaction(level, (1, 1, 1)) as transaction:
        transaction.write_cells("vertices", [("-2.0.0", b"")])
    with pytest.raises(ShardOwnershipError), zb.shard_transaction(level, (1, 1, 1), arrays=["vertices"]):
        zb.write_chunk_vertices(level, (0, 0, 0), [])
    for place, mode in (((1, 1, 1), "merge"), ((3, 1, 1), "replace")):
        with zb.shard_transaction(level, zb.shard_of(level, place), mode=mode):
            zb.write_chunk_vertices(level, place, [[np.multiply(place, 25)]])
    assert zb.rebuild_presence(level, "vertices") == ["0.0.0", "0.1.0", "1.1.1", "3.1.1"]
    array = tmp_path / "a/0/vertices/zarr.json"
    document = json.loads(array.read_text())
    wrong = {"shape": [[3, -1, 3], [1 << 70] * 3, [3, "3", 3]], "chunk_grid": [{}, 7], "codecs": [[], [7], {}], "fill_value": [{"a": 1}], "attributes": [3]}
    for key, value in [(key, value) for key in document for value in (None, *wrong.get(key, ()))]:
        array.write_text(json.dumps({**document, key: value}))
        with contextlib.suppress(ZVError):  # an error or an answer, and nothing else
            zb.read_cells(level, [(0, 0, 0)], on_error="raise")
    array.write_text(json.dumps(document))
    shard = tmp_path / "a/0/vertices/c/1/1/1"
    whole = shard.read_bytes()
    for cut in range(0, len(whole), 7):
        shard.write_bytes(whole[:cut])
        assert zb.read_cells(level, [(0, 0, 0)]).errors


def test_the_program_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[3] / "docs/src/guide/filling-a-level.md").read_text()
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    there, absent = (set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", part)) for part in page.partition("## What is there")[2].split("## What is not there"))
    assert there <= zv.FEATURES and not absent & zv.FEATURES
