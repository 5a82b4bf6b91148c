"""Random files of stock libraries, and what these read from the same after we read and wrote it.

write FOLDER SEED COUNT   writes COUNT files of each format to FOLDER/in
compare FOLDER            reads FOLDER/in/NAME and FOLDER/out/NAME, and prints a line of JSON for each pair
"""

import json
import pathlib
import sys
import traceback

import numpy as np


def chains(rng):
    count = int(rng.integers(1, 12))
    return [
        np.cumsum(rng.normal(size=(int(rng.integers(1, 40)), 3)), axis=0).astype("f4") for _ in range(count)
    ]


def surface(rng):
    """A grid of triangles, bent."""
    rows, columns = (int(n) for n in rng.integers(2, 9, size=2))
    grid = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), -1).reshape(-1, 2)
    points = np.concatenate([grid, rng.normal(size=(len(grid), 1))], 1).astype("f4")
    at = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = at[:-1, :-1].ravel(), at[1:, :-1].ravel(), at[1:, 1:].ravel(), at[:-1, 1:].ravel()
    return points, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])


def affine(rng):
    matrix = np.eye(4)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    matrix[:3, :3] = turn * rng.uniform(0.5, 3, size=3)
    matrix[:3, 3] = rng.normal(size=3) * 50
    return matrix


def same(first, second, tolerance=0.0):
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape:
        return f"shape {first.shape}, and {second.shape} after us"
    if first.dtype.kind in "fc":
        worst = float(np.max(np.abs(first.astype("f8") - second.astype("f8")), initial=0.0))
        return None if worst <= tolerance else f"off by {worst}"
    return None if np.array_equal(first, second) else "other values"


def same_chains(first, second, tolerance):
    if [len(one) for one in first] != [len(one) for one in second]:
        return "other lengths"
    if not first:
        return None
    return same(np.concatenate(first), np.concatenate(second), tolerance)


class Tck:
    def write(path, rng):
        import nibabel as nib

        nib.streamlines.save(nib.streamlines.Tractogram(chains(rng), affine_to_rasmm=np.eye(4)), str(path))

    def compare(first, second):
        import nibabel as nib

        one, two = (list(nib.streamlines.load(str(path)).streamlines) for path in (first, second))
        return same_chains(one, two, 0.0)


class Trk:
    def write(path, rng):
        import nibabel as nib

        lines = chains(rng)
        header = {
            "voxel_to_rasmm": affine(rng).astype("f4"),
            "dimensions": rng.integers(10, 200, size=3).astype("i2"),
        }
        header["voxel_sizes"] = np.linalg.norm(header["voxel_to_rasmm"][:3, :3], axis=0).astype("f4")
        header["voxel_order"] = "".join(nib.aff2axcodes(header["voxel_to_rasmm"]))
        tractogram = nib.streamlines.Tractogram(
            lines,
            data_per_point={"fa": [rng.random((len(line), 1), dtype="f4") for line in lines]},
            data_per_streamline={"mean": rng.random((len(lines), 3), dtype="f4")},
            affine_to_rasmm=np.eye(4),
        )
        nib.streamlines.save(nib.streamlines.TrkFile(tractogram, header), str(path))

    def compare(first, second):
        import nibabel as nib

        one, two = (nib.streamlines.load(str(path)).tractogram for path in (first, second))
        faults = [
            same_chains(list(one.streamlines), list(two.streamlines), 1e-3),
            same_chains(list(one.data_per_point["fa"]), list(two.data_per_point["fa"]), 0.0),
            same(one.data_per_streamline["mean"], two.data_per_streamline["mean"]),
        ]
        return next(filter(None, faults), None)


class Trx:
    def write(path, rng):
        import nibabel as nib
        from trx.trx_file_memmap import TrxFile, save

        lines = chains(rng)
        reference = nib.Nifti1Image(np.zeros((9, 8, 7), "u1"), affine(rng))
        tractogram = nib.streamlines.Tractogram(
            lines,
            data_per_point={"fa": [rng.random((len(line), 1), dtype="f4") for line in lines]},
            data_per_streamline={"size": rng.integers(0, 99, size=(len(lines), 1)).astype("i4")},
            affine_to_rasmm=np.eye(4),
        )
        trx = TrxFile.from_tractogram(
            tractogram,
            reference,
            dtype_dict={
                "positions": "float32",
                "offsets": "uint32",
                "dpv": {"fa": "float32"},
                "dps": {"size": "int32"},
            },
        )
        trx.groups["some"] = np.arange(len(lines), dtype="u4")[:: 2]
        save(trx, str(path))
        trx.close()

    def compare(first, second):
        from trx.trx_file_memmap import load

        one, two = load(str(first)), load(str(second))
        faults = [
            same_chains(list(one.streamlines), list(two.streamlines), 0.0),
            same(one.data_per_vertex["fa"]._data, two.data_per_vertex["fa"]._data),
            same(one.data_per_streamline["size"], two.data_per_streamline["size"]),
            same(one.groups["some"], two.groups["some"]),
            same(one.header["VOXEL_TO_RASMM"], two.header["VOXEL_TO_RASMM"], 1e-6),
        ]
        return next(filter(None, faults), None)


class Las:
    def write(path, rng):
        import laspy

        form = int(rng.choice([0, 1, 2, 3, 6, 7, 8]))
        header = laspy.LasHeader(point_format=form, version="1.4" if form >= 6 else "1.2")
        header.scales, header.offsets = [0.001] * 3, [1000.0, -2000.0, 0.5]
        header.add_extra_dim(laspy.ExtraBytesParams("noise", type="f4"))
        las, count = laspy.LasData(header), int(rng.integers(0, 500))
        las.x, las.y, las.z = (rng.normal(size=count) * 100 + offset for offset in header.offsets)
        las.intensity = rng.integers(0, 65536, size=count).astype("u2")
        las.classification = rng.integers(0, 32, size=count).astype("u1")
        las.noise = rng.random(count, dtype="f4")
        if form in (1, 3, 6, 7, 8):
            las.gps_time = rng.random(count) * 1e6
        las.write(str(path))

    def compare(first, second):
        import laspy

        one, two = laspy.read(str(first)), laspy.read(str(second))
        faults = [same(one[name], two[name], 1e-9) for name in "xyz"]
        names = [name for name in one.point_format.dimension_names if name not in "XYZ"]
        faults += [
            (fault := same(np.asarray(one[name]), np.asarray(two[name]))) and f"{name}: {fault}" for name in names
        ]
        return next(filter(None, faults), None)


class Mesh:
    def write(path, rng):
        import trimesh

        points, faces = surface(rng)
        trimesh.Trimesh(points, faces, process=False).export(str(path))

    def compare(first, second):
        import trimesh

        one, two = (
            trimesh.load(str(path), process=False, force="mesh") for path in (first, second)
        )
        return same(np.asarray(one.triangles, "f4"), np.asarray(two.triangles, "f4"), 1e-5)


class Gifti:
    def write(path, rng):
        import nibabel as nib

        points, faces = surface(rng)
        nib.save(
            nib.GiftiImage(
                darrays=[
                    nib.gifti.GiftiDataArray(points, intent="NIFTI_INTENT_POINTSET"),
                    nib.gifti.GiftiDataArray(faces.astype("i4"), intent="NIFTI_INTENT_TRIANGLE"),
                ]
            ),
            str(path),
        )

    def compare(first, second):
        import nibabel as nib

        one, two = nib.load(str(first)), nib.load(str(second))
        pairs = [[image.agg_data(what) for image in (one, two)] for what in ("pointset", "triangle")]
        return next(filter(None, (same(a, b) for a, b in pairs)), None)


class Parquet:
    def table(rng):
        import pyarrow as pa

        count = int(rng.integers(1, 300))
        columns = {axis: rng.normal(size=count) for axis in "xyz"}
        columns["level"] = rng.integers(-5, 5, size=count).astype("i2")
        columns["name"] = [f"n{n % 7}" for n in range(count)]
        return pa.table(columns)

    def write(path, rng):
        import pyarrow.parquet as pq

        pq.write_table(Parquet.table(rng), str(path))

    def read(path):
        import pyarrow.parquet as pq

        return pq.read_table(str(path))

    def compare(first, second, read=None):
        one, two = (Parquet.read(path) for path in (first, second))
        return Parquet.same(one, two)

    def same(one, two):
        places = np.stack([one[axis].to_numpy() for axis in "xyz"], 1)
        if "position" in two.column_names:
            found = np.array(two["position"].to_pylist())
        else:
            found = np.stack([two[axis].to_numpy() for axis in "xyz"], 1)
        faults = [
            same(places, found),
            None if one["level"].to_pylist() == two["level"].to_pylist() else "level: other values",
            None if one["name"].to_pylist() == two["name"].to_pylist() else "name: other values",
        ]
        return next(filter(None, faults), None)


class Arrow:
    def write(path, rng):
        import pyarrow as pa

        table = Parquet.table(rng)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    def compare(first, second):
        import pyarrow as pa

        one, two = (pa.ipc.open_file(str(path)).read_all() for path in (first, second))
        return Parquet.same(one, two)


class Vtp:
    def write(path, rng):
        import vtk
        from vtk.util.numpy_support import numpy_to_vtk

        lines = [line for line in chains(rng) if len(line) > 2] or [np.zeros((3, 3), "f4")]
        data, cells, at = vtk.vtkPolyData(), vtk.vtkCellArray(), 0
        points = vtk.vtkPoints()
        points.SetData(numpy_to_vtk(np.concatenate(lines), deep=True))
        for line in lines:
            cells.InsertNextCell(len(line), range(at, at + len(line)))
            at += len(line)
        data.SetPoints(points)
        data.SetLines(cells)
        array = numpy_to_vtk(rng.random(at), deep=True)
        array.SetName("value")
        data.GetPointData().AddArray(array)
        writer = vtk.vtkXMLPolyDataWriter()
        writer.SetFileName(str(path))
        writer.SetInputData(data)
        writer.SetDataMode(int(rng.integers(0, 3)))
        writer.Write()

    def read(path):
        import vtk
        from vtk.util.numpy_support import vtk_to_numpy

        reader = vtk.vtkXMLPolyDataReader()
        reader.SetFileName(str(path))
        reader.Update()
        data = reader.GetOutput()
        lines = data.GetLines()
        return [
            vtk_to_numpy(data.GetPoints().GetData()),
            vtk_to_numpy(lines.GetConnectivityArray()),
            vtk_to_numpy(lines.GetOffsetsArray()),
            vtk_to_numpy(data.GetPointData().GetArray("value")),
        ]

    def compare(first, second):
        pairs = zip(Vtp.read(first), Vtp.read(second))
        return next(filter(None, (same(a, b) for a, b in pairs)), None)


class Graphml:
    def write(path, rng):
        import networkx as nx

        graph = nx.gnp_random_graph(int(rng.integers(1, 30)), 0.2, seed=int(rng.integers(1 << 30)))
        for node in graph.nodes:
            graph.nodes[node].update(zip("xyz", map(float, rng.normal(size=3))))
            graph.nodes[node]["kind"] = f"k{node % 3}"
        for edge in graph.edges:
            graph.edges[edge]["weight"] = float(rng.random())
        nx.write_graphml(graph, str(path))

    def read(path):
        import networkx as nx

        graph = nx.read_graphml(str(path))
        places = {name: at for at, name in enumerate(graph.nodes)}
        nodes = [[data[axis] for axis in "xyz"] for _, data in graph.nodes(data=True)]
        kinds = [data["kind"] for _, data in graph.nodes(data=True)]
        edges = sorted(
            (*sorted((places[a], places[b])), data["weight"]) for a, b, data in graph.edges(data=True)
        )
        return np.array(nodes), kinds, edges

    def compare(first, second):
        one, two = Graphml.read(first), Graphml.read(second)
        if one[1:] != two[1:]:
            return "other kinds or edges"
        return same(one[0], two[0])


class H5ad:
    def write(path, rng):
        import anndata
        import pandas as pd

        count = int(rng.integers(1, 200))
        obs = pd.DataFrame(
            {
                "total": rng.random(count),
                "count": rng.integers(0, 99, size=count),
                "cluster": pd.Categorical([f"c{n % 4}" for n in range(count)]),
            },
            index=[f"cell{n}" for n in range(count)],
        )
        data = anndata.AnnData(obs=obs)
        data.obsm["spatial"] = rng.normal(size=(count, int(rng.integers(2, 4))))
        data.write_h5ad(str(path))

    def compare(first, second):
        import anndata

        one, two = anndata.read_h5ad(str(first)), anndata.read_h5ad(str(second))
        faults = [same(one.obsm["spatial"], two.obsm["spatial"])]
        faults += [same(one.obs[name], two.obs[name]) for name in ("total", "count")]
        faults.append(same(one.obs["cluster"].astype(str), two.obs["cluster"].astype(str)))
        return next(filter(None, faults), None)


class Skeletons:
    """A folder."""

    def write(path, rng):
        from cloudvolume import CloudVolume, Skeleton

        place = f"precomputed://file://{path.resolve()}"
        info = CloudVolume.create_new_info(
            num_channels=1,
            layer_type="segmentation",
            data_type="uint64",
            encoding="raw",
            resolution=[1, 1, 1],
            voxel_offset=[0, 0, 0],
            volume_size=[64, 64, 64],
            skeletons="skeletons",
        )
        volume = CloudVolume(place, info=info)
        volume.commit_info()
        volume.skeleton.meta.commit_info()
        for number in range(int(rng.integers(1, 6))):
            count = int(rng.integers(2, 30))
            edges = [[n, int(rng.integers(0, n))] for n in range(1, count)]
            volume.skeleton.upload(
                Skeleton(
                    rng.random((count, 3), dtype="f4") * 100,
                    np.array(edges, "u4"),
                    radii=rng.random(count, dtype="f4"),
                    vertex_types=rng.integers(0, 5, size=count).astype("u1"),
                    segid=number * 7 + 1,
                )
            )

    def compare(first, second):
        def read(path):
            found = {}
            for name in sorted(path.glob("**/*")):
                if name.is_file() and name.stem.isdigit() and name.suffix in ("", ".gz"):
                    found[int(name.stem)] = name
            return found

        from cloudvolume import Skeleton
        import gzip

        def load(name):
            data = name.read_bytes()
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            attributes = [
                {"id": "radius", "data_type": "float32", "num_components": 1},
                {"id": "vertex_types", "data_type": "uint8", "num_components": 1},
            ]
            return Skeleton.from_precomputed(data, vertex_attributes=attributes)

        one, two = read(first), read(second)
        if sorted(one) != sorted(two):
            return f"segments {sorted(one)}, and {sorted(two)} after us"
        for segment in one:
            a, b = load(one[segment]), load(two[segment])
            edges = [sorted(map(tuple, np.sort(skeleton.edges, 1).tolist())) for skeleton in (a, b)]
            faults = [same(a.vertices, b.vertices), same(a.radius, b.radius)]
            faults.append(None if edges[0] == edges[1] else "other edges")
            if fault := next(filter(None, faults), None):
                return f"segment {segment}: {fault}"
        return None


FORMATS = {
    "tck": Tck,
    "trk": Trk,
    "trx": Trx,
    "las": Las,
    "laz": Las,
    "stl": Mesh,
    "ply": Mesh,
    "obj": Mesh,
    "glb": Mesh,
    "surf.gii": Gifti,
    "parquet": Parquet,
    "arrow": Arrow,
    "vtp": Vtp,
    "graphml": Graphml,
    "h5ad": H5ad,
    "precomputed": Skeletons,
}


def main(command, folder, *rest):
    folder = pathlib.Path(folder)
    if command == "write":
        seed, count = map(int, rest)
        (folder / "in").mkdir(parents=True)
        for form, end in enumerate(FORMATS):
            for number in range(count):
                rng = np.random.default_rng([seed, form, number])
                FORMATS[end].write(folder / "in" / f"{number}.{end}", rng)
        return
    for path in sorted((folder / "in").iterdir()):
        end = path.name.partition(".")[2]
        other = folder / "out" / path.name
        try:
            fault = FORMATS[end].compare(path, other) if other.exists() else "was not written"
        except Exception:
            fault = traceback.format_exc(limit=-2).strip().replace("\n", " ")
        print(json.dumps({"name": path.name, "fault": fault}))


main(*sys.argv[1:])
