//! Tests of glTF and GLB files.

use crate::gltf::read::*;
use crate::shared::golden;

#[test]
fn reads_golden_files() {
    let expected = golden::read_expected("gltf");
    for (name, facts) in expected["files"].as_object().unwrap() {
        let path = golden::folder("gltf").join(name);
        let options = ReadOptions::default();
        let file = golden::read_file(&path, "glTF").unwrap();
        let document =
            Document::parse(&file, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let nodes = scene::list_mesh_nodes(&document).unwrap();
        compare(name, &document, &nodes, facts);
    }
    golden::check_good("gltf", &ReadOptions::default());
    golden::check_broken("gltf", |path| {
        let mut bytes = Bytes::open(path)?;
        bytes.set_format("glTF");
        open(bytes, &ReadOptions::default()).map(drop)
    });
}

fn compare(name: &str, document: &Document<'_>, nodes: &[MeshNode], facts: &Json) {
    let mut expected_primitives = facts["primitives"].as_array().unwrap().iter();
    for node in nodes {
        let mesh = &document.array("meshes")[node.mesh];
        for (at, primitive) in mesh["primitives"].as_array().unwrap().iter().enumerate() {
            let read = read_primitive(document, node.mesh, at, primitive);
            let read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
            let facts = expected_primitives.next().unwrap();
            assert_eq!(facts["mode"], read.mode, "{name}");
            assert_eq!(facts["vertices"], read.positions.len(), "{name}");
            if facts["stored"] != "float64" {
                let local = &facts["local"];
                let bytes: Vec<u8> = zvf_formats::value_places(&read.positions)
                    .flat_map(|(row, c)| read.positions.float(row, c).unwrap().to_le_bytes())
                    .collect();
                assert_eq!(local["sha256"], golden::sha256(&bytes), "{name}: local");
                if facts["elements"]["sha256"].is_string() {
                    let bytes = read.elements.iter().flat_map(|row| i64::from(*row).to_le_bytes());
                    let bytes: Vec<u8> = bytes.collect();
                    assert_eq!(
                        facts["elements"]["sha256"],
                        golden::sha256(&bytes),
                        "{name} {read:?}"
                    );
                }
            }
            assert_eq!(facts["elements"]["width"], read.width, "{name}");
            let attributes = read.attributes.iter();
            let attributes = attributes.map(|(key, values)| Field::new(&**key, values.clone()));
            let attributes = golden::gather(&attributes.collect::<Vec<_>>());
            golden::check_columns(name, &facts["attributes"], &attributes, false);
        }
    }
    assert!(expected_primitives.next().is_none(), "{name}");
}

#[test]
fn restores_the_winding_of_mirrored_nodes() {
    let path = golden::folder("gltf").join("nodes.gltf");
    let read = golden::Collected::read(&path, &ReadOptions::default()).unwrap();
    let mirrored = &read.elements[..3];
    let plain: Vec<i64> = read.elements[12..15].iter().map(|row| row - 12).collect();
    assert_eq!(mirrored, [plain[0], plain[2], plain[1]]);
    assert_eq!(read.header.left_out, ["1 node without a scene"]);
}

#[test]
fn limits_the_instances_of_a_mesh() {
    let mesh = r#""meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "accessors": [{"componentType": 5126, "type": "VEC3", "count": 30000}]"#;
    let nodes: Vec<String> = (0..400).map(|_| r#"{"mesh": 0}"#.to_owned()).collect();
    let numbers: Vec<String> = (0..400).map(|node| node.to_string()).collect();
    let text = format!(
        r#"{{"asset": {{"version": "2.0"}}, {mesh}, "nodes": [{}], "scenes": [{{"nodes": [{}]}}]}}"#,
        nodes.join(","),
        numbers.join(",")
    );
    let bytes = Bytes::new(Box::new(std::io::Cursor::new(text.into_bytes())), None);
    let error = open(bytes, &ReadOptions::default()).unwrap_err();
    assert_eq!(error.class(), Class::LimitExceeded, "{error}");
}

#[test]
fn refuses_malformed_numbers() {
    let read = |text: &str| {
        let bytes = Bytes::new(Box::new(std::io::Cursor::new(text.to_owned())), None);
        open(bytes, &ReadOptions::default()).map(drop).unwrap_err().to_string()
    };
    let tail = r#""meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}], "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}],
        "buffers": [{"byteLength": 36, "uri": "data:;base64,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}],"#;
    let accessor = r#"{"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 3"#;
    let view = r#"{"buffer": 0, "byteLength": 36"#;
    let error = read(&format!(
        r#"{{{tail} "accessors": [{accessor}}}], "bufferViews": [{view}, "byteStride": 12.5}}]}}"#
    ));
    assert!(error.contains("bufferViews[0]: expected a byteStride, found 12.5"), "{error}");
    let error = read(&format!(
        r#"{{{tail} "accessors": [{accessor}, "byteOffset": -4}}], "bufferViews": [{view}}}]}}"#
    ));
    assert!(error.contains("accessors[0]: expected a byteOffset, found -4"), "{error}");
    let error = read(r#"{"nodes": [{"matrix": [1, 0]}], "scenes": [{"nodes": [0]}]}"#);
    assert!(error.contains("the numbers of matrix in node 0, found [1,0]"), "{error}");
}

#[test]
fn members_that_are_null_are_absent() {
    let text = r#"{"scene": null, "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0, "matrix": null, "translation": null, "rotation": null, "scale": null}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "mode": null, "indices": null}]}],
        "accessors": [{"bufferView": 0, "byteOffset": null, "componentType": 5126, "type": "VEC3", "count": 3}],
        "bufferViews": [{"buffer": 0, "byteOffset": null, "byteLength": 36, "byteStride": null}],
        "buffers": [{"byteLength": 36, "uri": "data:;base64,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;
    let bytes = Bytes::new(Box::new(std::io::Cursor::new(text)), None);
    let reader = open(bytes, &ReadOptions::default()).unwrap();
    assert_eq!(reader.header().kind, Kind::Mesh);
    assert_eq!(golden::Collected::from_reader(reader).unwrap().elements, [0, 1, 2]);
}

#[test]
fn reports_the_size_of_a_short_binary_chunk() {
    let mut json = br#"{"buffers":[{"byteLength":40}]}"#.to_vec();
    json.resize(json.len().next_multiple_of(4), b' ');
    let length = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
    let total = length(20 + json.len() + 8 + 4);
    let parts: [&[u8]; 8] = [
        b"glTF\x02\0\0\0",
        &total,
        &length(json.len()),
        b"JSON",
        &json,
        &length(4),
        b"BIN\0",
        b"data",
    ];
    let bytes = Bytes::new(Box::new(std::io::Cursor::new(parts.concat())), None);
    let error = open(bytes, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("buffers[0]: expected 40 bytes, found 4"), "{error}");
}

#[test]
fn walks_a_tree_of_any_depth() {
    let nodes: Vec<String> =
        (1..8000).map(|child| format!(r#"{{"children": [{child}]}}"#)).collect();
    let text = format!(
        r#"{{"asset": {{"version": "2.0"}}, "nodes": [{}, {{}}], "scenes": [{{"nodes": [0]}}]}}"#,
        nodes.join(",")
    );
    let bytes = Bytes::new(Box::new(std::io::Cursor::new(text.into_bytes())), None);
    assert_eq!(open(bytes, &ReadOptions::default()).unwrap().count(), 0);
}
