//! Tests: golden files of meshes and graphs, written in each format that holds them and read again.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use zvf_error::Result;
use zvf_format::Class;
use zvf_metadata::Dtype;
use zvf_model::flow::{FlowReport, Header};
use zvf_model::{Column, Field, Kind, Value};

use super::shared::golden::{self, Collected};
use crate::Format;
use crate::read::{self, Input, Polygons, ReadOptions};
use crate::write::{self, FormatOptions, Target, find_losses};

/// Writes the file at `path` as `format`, and returns the path of the result; `None` where the format does not hold it.
fn convert(path: &Path, options: &ReadOptions, format: Format, folder: &Path) -> Option<PathBuf> {
    let reader = read::open(Input::path(path), None, options).unwrap();
    find_losses(reader.header(), format).ok()?;
    let to = folder.join(format!("{}.{}", format.token(), format.extensions()[0]));
    let _old = std::fs::remove_file(&to);
    let mut file = std::fs::File::create_new(&to).unwrap();
    let writer = write::open(format, Target::file(&mut file), &FormatOptions::default()).unwrap();
    match write::copy(reader, writer) {
        Ok(_) => Some(to),
        // GIFTI holds values without positions but not points, which only the data tell apart.
        Err(error) if error.class() == Class::Unsupported => None,
        Err(error) => panic!("{path:?} as {format}: {error}"),
    }
}

/// Copies an input of the format `from` to a target of the format `to`.
fn copy(input: Input, from: Format, target: Target<'_>, to: Format) -> Result<FlowReport> {
    let reader = read::open(input, Some(from), &ReadOptions::default())?;
    write::copy(reader, write::open(to, target, &FormatOptions::default())?)
}

fn good_files() -> Vec<(PathBuf, Kind)> {
    let all = [
        ("stl", "several.stl", Kind::Mesh),
        ("stl", "text_variants.stl", Kind::Mesh),
        ("stl", "empty.stl", Kind::Mesh),
        ("gifti", "gzip.surf.gii", Kind::Mesh),
        ("freesurfer", "lh.white", Kind::Mesh),
        ("gltf", "scene.glb", Kind::Mesh),
        ("gltf", "points.glb", Kind::PointCloud),
        ("gltf", "modes.glb", Kind::Graph),
        ("vtk_polydata", "binary51.vtk", Kind::Mesh),
        ("vtk_polydata", "binary51.vtk", Kind::Polyline),
        ("vtk_polydata", "binary51.vtk", Kind::Graph),
        ("vtk_polydata", "points_only.vtk", Kind::PointCloud),
        ("graphml", "plain.graphml", Kind::Graph),
        ("graphml", "multi.graphml", Kind::Graph),
        ("edgelist", "graph.edges.csv", Kind::Graph),
    ];
    all.into_iter().map(|(folder, name, kind)| (golden::folder(folder).join(name), kind)).collect()
}

/// Checks that the positions and elements of both are the same, row by row.
fn compare(place: &str, first: &Collected, second: &Collected) {
    let narrow = |all: &[f64]| all.iter().map(|x| (*x as f32).to_bits()).collect::<Vec<_>>();
    let factor = match (first.header.unit(), second.header.unit()) {
        (Some("meter"), Some("millimeter")) => 1000.0,
        _ => 1.0,
    };
    let mut wide = Vec::new();
    for point in first.positions.chunks(first.axes()) {
        wide.extend(point.iter().map(|x| x * factor));
        wide.extend(vec![0.0; second.axes() - first.axes()]);
    }
    assert_eq!(narrow(&wide), narrow(&second.positions), "{place}: positions");
    assert_eq!(first.elements, second.elements, "{place}: elements");
    assert_eq!(first.lengths, second.lengths, "{place}: parts");
}

#[test]
fn meshes_and_graphs_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let formats = ["obj", "vtp", "gifti", "freesurfer", "graphml", "draco"];
    let formats = formats.map(|token| Format::from_token(token).unwrap());
    let mut written = 0;
    for (path, kind) in good_files() {
        let polygons = Polygons::Triangles;
        let options = ReadOptions { kind: Some(kind), polygons, ..ReadOptions::default() };
        let first = Collected::read(&path, &options).unwrap();
        for format in formats {
            let place = format!("{} as {format}", path.display());
            let Some(to) = convert(&path, &options, format, folder.path()) else { continue };
            let is_bare = first.elements.is_empty() && kind == Kind::Mesh;
            if format == Format::Obj && (kind == Kind::Polyline || is_bare) {
                continue; // lines become edges, and vertices alone are no mesh
            }
            let second = Collected::read(&to, &options).expect(&place);
            compare(&place, &first, &second);
            written += 1;
        }
    }
    assert!(written > 30, "{written}");
}

#[test]
fn triangles_of_stl_and_glb_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (path, kind) in good_files().into_iter().filter(|(_, kind)| *kind == Kind::Mesh) {
        let polygons = Polygons::Triangles;
        let options = ReadOptions { kind: Some(kind), polygons, ..ReadOptions::default() };
        let first = Collected::read(&path, &options).unwrap();
        let expected = triangles(&first);
        let has_unit = first.header.unit().is_some();
        for (format, tolerance) in [(Format::Stl, 0.0), (Format::Gltf, 1e-4)] {
            let tolerance = if has_unit { tolerance } else { 0.0 };
            let Some(to) = convert(&path, &options, format, folder.path()) else { continue };
            let second = Collected::read(&to, &options).unwrap();
            let factor = match (first.header.unit(), format) {
                (Some("millimeter"), Format::Gltf) => 1000.0,
                _ => 1.0,
            };
            let found = triangles(&second);
            assert_eq!(found.len(), expected.len(), "{path:?} as {format}");
            for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                let expected = f64::from(*expected as f32);
                assert!(
                    (found * factor - expected).abs() <= tolerance,
                    "{path:?} as {format}: {found} {expected}"
                );
            }
        }
    }
}

/// Returns the coordinates of the corners of each triangle.
fn triangles(all: &Collected) -> Vec<Vec<f64>> {
    let corner = |row: &i64| {
        let at = *row as usize * all.axes();
        all.positions[at..at + 3].to_vec()
    };
    all.elements.chunks(3).map(|face| face.iter().flat_map(corner).collect()).collect()
}

#[test]
fn attributes_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = golden::folder("vtk_polydata").join("binary51.vtk");
    let options = ReadOptions { kind: Some(Kind::Polyline), ..ReadOptions::default() };
    let first = Collected::read(&path, &options).unwrap();
    let to = convert(&path, &options, Format::Vtp, folder.path()).unwrap();
    let second = Collected::read(&to, &options).unwrap();
    assert_eq!((&first.fields, &first.object_fields), (&second.fields, &second.object_fields));
    let path = golden::folder("graphml").join("plain.graphml");
    let first = Collected::read(&path, &ReadOptions::default()).unwrap();
    let to = convert(&path, &ReadOptions::default(), Format::Graphml, folder.path()).unwrap();
    let second = Collected::read(&to, &ReadOptions::default()).unwrap();
    assert_eq!((&first.fields, &first.element_fields), (&second.fields, &second.element_fields));
}

#[test]
fn a_folder_of_surfaces_round_trips() {
    let from = tempfile::tempdir().unwrap();
    for name in ["lh.white", "lh.thickness", "lh.test.annot"] {
        std::fs::copy(golden::folder("freesurfer").join(name), from.path().join(name)).unwrap();
    }
    for format in [Format::Freesurfer, Format::Gifti] {
        let to = tempfile::tempdir().unwrap();
        copy(Input::path(from.path()), Format::Freesurfer, Target::folder(to.path()), format)
            .unwrap();
        let read = |path: &Path, format| {
            let reader = read::open(Input::path(path), Some(format), &ReadOptions::default());
            Collected::from_reader(reader.unwrap()).unwrap()
        };
        let (first, second) = (read(from.path(), Format::Freesurfer), read(to.path(), format));
        assert_eq!(first.positions, second.positions, "{format}");
        assert_eq!(first.elements, second.elements, "{format}");
        let find = |all: &Collected, name| {
            all.fields.iter().find(|field| field.name == name).unwrap().clone()
        };
        assert_eq!(find(&first, "thickness").bytes, find(&second, "thickness").bytes, "{format}");
        let labels = |all| {
            let field = find(all, "test");
            let label = |label: &Value| match label {
                Value::Text(text) if text != "???" => text.clone(),
                _ => String::new(),
            };
            field.text.iter().map(label).collect::<Vec<String>>()
        };
        assert_eq!(labels(&first), labels(&second), "{format}");
    }
}

#[test]
fn each_hemisphere_keeps_its_own_volume() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let left = std::fs::read(golden::folder("freesurfer").join("lh.white")).unwrap();
    let start = left.windows(4).rposition(|bytes| bytes == b"cras").unwrap();
    let end = start + left[start..].iter().position(|byte| *byte == b'\n').unwrap();
    let right = [&left[..start], b"cras   = 9 8 7", &left[end..]].concat();
    std::fs::write(from.path().join("lh.white"), &left).unwrap();
    std::fs::write(from.path().join("rh.white"), &right).unwrap();
    let (input, target) = (Input::path(from.path()), Target::folder(to.path()));
    copy(input, Format::Freesurfer, target, Format::Freesurfer).unwrap();
    let offset = |folder: &Path, name: &str| {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let start = bytes.windows(4).rposition(|bytes| bytes == b"cras").unwrap();
        let text = std::str::from_utf8(&bytes[start..]).unwrap();
        let (_, numbers) = text.lines().next().unwrap().split_once('=').unwrap();
        let numbers = numbers.split_whitespace().map(|word| word.parse::<f64>().unwrap());
        numbers.collect::<Vec<f64>>()
    };
    for name in ["lh.white", "rh.white"] {
        assert_eq!(offset(to.path(), name), offset(from.path(), name), "{name}");
    }
    assert_eq!(offset(to.path(), "rh.white"), [9.0, 8.0, 7.0]);
}

#[test]
fn skeletons_in_shards_are_read_again() {
    let tree = b"1 3 0 0 9 1 -1\n2 1 0.5 0 0 2.5 1\n3 1 7 7 7 1 -1\n4 0 8 8 8 1 3\n";
    let read = |input| read::open(input, Some(Format::Swc), &ReadOptions::default()).unwrap();
    let first = Collected::from_reader(read(Input::reader(&tree[..]))).unwrap();
    for (shard_bits, files) in [(0, &["0.shard"][..]), (3, &[])] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = FormatOptions::default();
        options.extra.insert("precomputed.shard_bits".into(), shard_bits.into());
        let writer = write::open(Format::Precomputed, Target::folder(folder.path()), &options);
        write::copy(read(Input::reader(&tree[..])), writer.unwrap()).unwrap();
        assert!(files.iter().all(|name| folder.path().join(name).is_file()));
        assert!(!folder.path().join("0").exists(), "in shards only");
        let options = ReadOptions { kind: Some(Kind::Graph), ..ReadOptions::default() };
        let second = Collected::read(folder.path(), &options).unwrap();
        let nanometres: Vec<f64> = first.positions.iter().map(|x| x * 1000.0).collect();
        assert_eq!((nanometres, 2), (second.positions, second.objects.len()));
        let mut text = Vec::new();
        let (input, target) = (Input::path(folder.path()), Target::stream(&mut text));
        copy(input, Format::Precomputed, target, Format::Swc).unwrap();
        let head = b"# id type x y z radius parent\n# unit micrometer\n";
        assert_eq!(text, [&head[..], &tree[..]].concat(), "radii have the unit of positions");
    }
    let mut options = FormatOptions::default();
    options.extra.insert("precomputed.shard_bits".into(), 99.into());
    let target = Target::folder(tempfile::tempdir().unwrap().path());
    assert!(write::open(Format::Precomputed, target, &options).is_err());
}

/// Reads `input` and writes it as a precomputed folder with these options of the format.
fn write_precomputed(
    input: &Path,
    options: &ReadOptions,
    extra: &[(&str, serde_json::Value)],
) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut write = FormatOptions::default();
    write.extra.extend(extra.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let writer = write::open(Format::Precomputed, Target::folder(folder.path()), &write).unwrap();
    write::copy(read::open(Input::path(input), None, options).unwrap(), writer).unwrap();
    folder
}

/// Returns a graph whose nodes have their number on the first axis, and 0 on the others.
fn graphml(axes: &[&str], nodes: usize, edges: &str) -> String {
    let attribute = "for=\"node\" attr.type=\"double\"";
    let key = |axis: &&str| format!("<key id=\"{axis}\" attr.name=\"{axis}\" {attribute}/>");
    let node = |n: usize| {
        let value = |axis: &&str| {
            format!("<data key=\"{axis}\">{}</data>", if *axis == "x" { n } else { 0 })
        };
        format!("<node id=\"{n}\">{}</node>", axes.iter().map(value).collect::<String>())
    };
    let (keys, nodes): (String, String) =
        (axes.iter().map(key).collect(), (0..nodes).map(node).collect());
    format!("<graphml>{keys}<graph edgedefault=\"undirected\">{nodes}{edges}</graph></graphml>")
}

#[test]
fn segments_have_three_axes() {
    let input = tempfile::NamedTempFile::with_suffix(".graphml").unwrap();
    let edge = "<edge source=\"0\" target=\"1\"/>";
    std::fs::write(input.path(), graphml(&["x", "y"], 2, edge)).unwrap();
    let folder = write_precomputed(input.path(), &ReadOptions::default(), &[]);
    let flat = Collected::read(folder.path(), &ReadOptions::default()).unwrap();
    assert_eq!(flat.positions, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    let axes = ["x", "y", "z", "t"].map(str::to_owned).into();
    let header = Header::new(Kind::Mesh, axes, Column::empty(Dtype::FLOAT32, 4).unwrap());
    assert!(find_losses(&header, Format::Precomputed).is_err());
}

#[test]
fn texts_of_several_values_come_back() {
    let lines = br#"{"position":[1,2],"label":["a","true"]}
{"position":[3,4],"label":["","a"]}"#;
    for format in [Format::Vtp, Format::Npy, Format::Npz] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let target = Target::file(file.reopen().unwrap());
        copy(Input::reader(&lines[..]), Format::Jsonl, target, format).unwrap();
        let label = &Collected::read(file.path(), &ReadOptions::default()).unwrap().fields[0];
        let texts = "a\0\0\0true\0\0\0\0a\0\0\0".chars();
        let bytes: Vec<u8> = texts.flat_map(|c| u32::from(c).to_le_bytes()).collect();
        assert_eq!((&*label.dtype, &label.bytes), ("<U4", &bytes), "{format}");
    }
}

#[test]
fn attributes_that_would_be_lost_are_refused_or_named() {
    let axes = ["x", "y", "z"].map(str::to_owned).to_vec();
    let column = |width| Column::empty(Dtype::FLOAT32, width).unwrap();
    for format in ["csv", "npy", "npz", "jsonl", "ply", "las"] {
        let mut header = Header::new(Kind::PointCloud, axes.clone(), column(3));
        header.fields.push(Field::new("object", column(1)));
        let target = Target::file(std::io::Cursor::new(Vec::new()));
        let format = Format::from_token(format).unwrap();
        let mut sink = write::open(format, target, &FormatOptions::default()).unwrap();
        let error = sink.begin(&header).unwrap_err().to_string();
        assert!(error.contains("next to its own column"), "{error}");
    }
    for (kind, count) in [(Kind::Polyline, 0), (Kind::Mesh, 1), (Kind::PointCloud, 1)] {
        let mut header = Header::new(kind, axes.clone(), column(3));
        header.object_fields.push(Field::new("score", column(1)));
        assert_eq!(find_losses(&header, Format::Vtp).unwrap().len(), count, "{kind}");
    }
}

#[test]
fn drops_vertices_without_an_object() {
    let table = b"x,y,z,object\n1,2,3,\n4,5,6,0\n7,8,9,-1\n";
    let folder = tempfile::tempdir().unwrap();
    let (input, target) = (Input::reader(&table[..]), Target::folder(folder.path()));
    let report = copy(input, Format::Csv, target, Format::Precomputed).unwrap();
    assert_eq!((report.vertices, report.objects), (1, 1));
    let losses: Vec<String> = report.losses.iter().map(ToString::to_string).collect();
    let expected = "2 vertices without an object dropped: precomputed holds objects only";
    assert!(losses.iter().any(|loss| loss == expected), "{losses:?}");
    let mut by_id = std::fs::read_dir(folder.path().join("by_id")).unwrap();
    assert!(by_id.all(|entry| entry.unwrap().file_name() == "0"));
    assert!(folder.path().join("by_id/0").is_file());
}

#[test]
fn annotations_in_shards_are_read_again() {
    let input = golden::folder("vtk_polydata").join("points_only.vtk");
    let options = ReadOptions { kind: Some(Kind::PointCloud), ..ReadOptions::default() };
    let plain = write_precomputed(&input, &options, &[]);
    let shards = [("precomputed.shard_bits", 2.into()), ("precomputed.minishard_bits", 1.into())];
    let sharded = write_precomputed(&input, &options, &shards);
    assert!(!sharded.path().join("by_id/0").exists(), "in shards only");
    let read = |folder: &Path| Collected::read(folder, &ReadOptions::default()).unwrap();
    let (plain, sharded) = (read(plain.path()), read(sharded.path()));
    assert!(!plain.positions.is_empty());
    compare("annotations in shards", &plain, &sharded);
}

#[test]
fn meshes_of_several_resolutions_are_read_again() {
    let input = golden::folder("stl").join("several.stl");
    let first = Collected::read(&input, &ReadOptions::default()).unwrap();
    let extent = first.positions.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
    let forms =
        [vec![("precomputed.mesh", "multilod".into())], vec![("precomputed.shard_bits", 1.into())]];
    for extra in forms {
        let folder = write_precomputed(&input, &ReadOptions::default(), &extra);
        let info = std::fs::read_to_string(folder.path().join("info")).unwrap();
        assert!(info.contains("neuroglancer_multilod_draco"), "{info}");
        let second = Collected::read(folder.path(), &ReadOptions::default()).unwrap();
        assert_eq!(first.elements, second.elements, "{extra:?}");
        for (a, b) in first.positions.iter().zip(&second.positions) {
            assert!((a - b).abs() <= extent * 4.0 / 65535.0, "{extra:?}: {a} became {b}");
        }
    }
}

#[test]
fn a_level_of_detail_and_single_segments_are_read() {
    let input = golden::folder("stl").join("several.stl");
    let multilod = [("precomputed.mesh", "multilod".into())];
    let folder = write_precomputed(&input, &ReadOptions::default(), &multilod);
    let read = |options: &ReadOptions| Collected::read(folder.path(), options);
    let before = read(&ReadOptions::default()).unwrap();
    let ids: Vec<u64> =
        (0..100).filter(|id: &u64| folder.path().join(format!("{id}.index")).exists()).collect();
    assert!(ids.len() > 1, "{ids:?}");
    // Duplicate the only level of each object, with cells of twice the side.
    let mut origins = Vec::new();
    for id in &ids {
        let manifest = folder.path().join(format!("{id}.index"));
        let old = std::fs::read(&manifest).unwrap();
        assert_eq!((old[24], old.len()), (1, 28 + 20 + 16), "one level of one fragment");
        let mut new = old[..24].to_vec();
        new.extend(2_u32.to_le_bytes());
        new.extend([1.0_f32, 2.0].iter().flat_map(|x| x.to_le_bytes()));
        new.extend([0; 24]);
        new.extend([1_u32, 1].iter().flat_map(|n| n.to_le_bytes()));
        new.extend_from_slice(&old[48..].repeat(2));
        std::fs::write(manifest, new).unwrap();
        let data = folder.path().join(id.to_string());
        std::fs::write(&data, std::fs::read(&data).unwrap().repeat(2)).unwrap();
        let word = |at: usize| f32::from_le_bytes(old[at..at + 4].try_into().unwrap());
        origins.push([word(12), word(16), word(20)].map(f64::from));
    }
    assert_eq!(read(&ReadOptions::default()).unwrap().positions, before.positions);
    let options = |lod, segments| ReadOptions { lod, segments, ..ReadOptions::default() };
    let coarse = read(&options(1, Some(vec![ids[0]]))).unwrap();
    assert!(!coarse.positions.is_empty() && coarse.positions.len() < before.positions.len());
    for (at, (fine, coarse)) in before.positions.iter().zip(&coarse.positions).enumerate() {
        let origin = origins[0][at % 3];
        let expected = origin + 2.0 * (fine - origin);
        let tolerance = 1e-4 * expected.abs().max(1.0);
        assert!((coarse - expected).abs() <= tolerance, "{coarse}, not {expected}");
    }
    let coarsest = read(&options(7, Some(vec![ids[0]]))).unwrap();
    assert_eq!(coarsest.positions, coarse.positions);
    let error = read(&options(0, Some(vec![ids[0], 77]))).unwrap_err().to_string();
    assert!(error.contains("found 77"), "{error}");
    let error = Collected::read(&input, &options(1, None)).unwrap_err().to_string();
    assert!(error.starts_with("Unsupported") && error.contains("precomputed"), "{error}");
}

#[test]
fn files_of_a_folder_may_be_compressed() {
    let tree = b"1 3 0 0 9 1 -1\n2 1 0.5 0 0 2.5 1\n";
    let folder = tempfile::tempdir().unwrap();
    let (input, target) = (Input::reader(&tree[..]), Target::folder(folder.path()));
    copy(input, Format::Swc, target, Format::Precomputed).unwrap();
    let read = || Collected::read(folder.path(), &ReadOptions::default());
    let plain = read().unwrap();
    let (file, packed) = (folder.path().join("0"), folder.path().join("0.gz"));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::write(packed, encoder.finish().unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let compressed = read().unwrap();
    assert_eq!((plain.positions.len(), &plain.positions), (6, &compressed.positions));
    std::fs::write(folder.path().join("8.br"), b"").unwrap();
    let error = read().unwrap_err().to_string();
    assert!(error.contains("8.br") && error.starts_with("Unsupported"), "{error}");
}

#[test]
fn trees_are_written_parents_first_and_circles_are_refused() {
    let write = |text: &[u8], format: Format| {
        let input = Input::reader(std::io::Cursor::new(text.to_vec()));
        let mut out = Vec::new();
        let done = copy(input, format, Target::stream(&mut out), Format::Swc);
        done.map(|_| String::from_utf8(out).unwrap()).map_err(|error| error.to_string())
    };
    let tree = b"5 3 0 0 9 1 7\n7 1 0.5 0 0 2.5 -1\n9 0 1 1 1 0 5\n";
    assert_eq!(
        write(tree, Format::Swc).unwrap(),
        "# id type x y z radius parent\n# unit micrometer\n\
         1 1 0.5 0 0 2.5 -1\n2 3 0 0 9 1 1\n3 0 1 1 1 0 2\n"
    );
    let graph = |edges: &str| graphml(&["x", "y", "z"], 3, edges);
    let open = graph("<edge source=\"0\" target=\"1\"/><edge source=\"1\" target=\"2\"/>");
    let written = write(open.as_bytes(), Format::Graphml).unwrap();
    assert!(written.ends_with("1 0 2 0 0 0 -1\n2 0 1 0 0 0 1\n3 0 0 0 0 0 2\n"));
    let far = open.replacen(">0</data>", ">nan</data>", 1);
    assert_eq!(
        write(far.as_bytes(), Format::Graphml).unwrap_err(),
        "Unsupported, SWC cannot hold a coordinate NaN: leave the vertex out, or write PLY or Parquet"
    );
    let circle = graph(
        "<edge source=\"0\" target=\"1\"/><edge source=\"1\" target=\"2\"/><edge source=\"2\" target=\"0\"/>",
    );
    assert_eq!(
        write(circle.as_bytes(), Format::Graphml).unwrap_err(),
        "Unsupported, SWC cannot hold a graph with cycles, closed by 1 edge: write GraphML, VTP \
         or PLY"
    );
}
