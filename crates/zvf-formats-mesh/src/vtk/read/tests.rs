//! Tests of the VTK reader.

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_formats::Polygons;

use crate::shared::golden;
use crate::vtk::read::*;

fn parse(path: &std::path::Path) -> Result<(PolyData, WholeFile)> {
    let is_xml = path.extension().is_some_and(|extension| extension == "vtp");
    let file = golden::read_file(path, if is_xml { "VTP" } else { "VTK" })?;
    let data = if is_xml { vtp::parse(&file)? } else { legacy::parse(&file)? };
    data.check(&file)?;
    Ok((data, file))
}

#[test]
fn golden_files() {
    let expected = golden::read_expected("vtk_polydata");
    for (name, facts) in expected["files"].as_object().unwrap() {
        let path = golden::folder("vtk_polydata").join(name);
        if name == "lzma.vtp" && cfg!(not(feature = "xz")) {
            let error = parse(&path).map(drop).unwrap_err();
            assert!(error.to_string().contains("--features xz"), "{error}");
            continue;
        }
        let (data, _) = parse(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        compare(name, &data, facts);
    }
    golden::check_broken("vtk_polydata", |path| parse(path).map(drop));
}

fn compare(name: &str, data: &PolyData, facts: &Json) {
    let points: Vec<u8> = zvf_formats::value_places(&data.points)
        .flat_map(|(row, axis)| data.points.float(row, axis).unwrap().to_le_bytes())
        .collect();
    assert_eq!(facts["vertices"]["sha256"], golden::sha256(&points), "{name}: points");
    let sorts = [
        ("verts", &data.cells[VERTS]),
        ("lines", &data.cells[LINES]),
        ("polys", &data.cells[POLYS]),
        ("strips", &data.cells[STRIPS]),
    ];
    for (sort, cells) in sorts {
        let facts = &facts[sort];
        assert_eq!(facts["count"], cells.len(), "{name}: {sort}");
        if cells.len() > 0 {
            let ids: Vec<u8> = cells.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            assert_eq!(facts["sha256"], golden::sha256(&ids), "{name}: {sort}");
            let lengths = cells.iter().flat_map(|cell| (cell.len() as i64).to_le_bytes());
            let lengths: Vec<u8> = lengths.collect();
            assert_eq!(facts["lengths_sha256"], golden::sha256(&lengths), "{name}: {sort}");
        }
    }
    for (key, fields) in
        [("vertex_attributes", &data.point_data), ("cell_attributes", &data.cell_data)]
    {
        golden::check_columns(name, &facts[key], &golden::gather(fields), false);
    }
    for column in facts["field_data"].as_array().unwrap() {
        let column_name = column["name"].as_str().unwrap();
        let found = data.field_data.iter().find(|(key, _)| key == column_name);
        let (_, found) = found.unwrap_or_else(|| panic!("{name}: no {column_name}"));
        if column["values"].is_array() {
            assert_eq!(&column["values"], found, "{name}: {column_name}");
        }
    }
}

#[test]
fn reads_each_kind_of_a_file() {
    let path = golden::folder("vtk_polydata").join("binary51.vtk");
    let read = |kind, polygons| {
        let options = ReadOptions { kind: Some(kind), polygons, ..ReadOptions::default() };
        golden::Collected::read(&path, &options)
    };
    let error = read(Kind::Mesh, Polygons::Same).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CountMismatch in VTK, cell 7: expected 6 corners as the first face has, found 3 corners; \
         use --triangles"
    );
    let mesh = read(Kind::Mesh, Polygons::Triangles).unwrap();
    assert_eq!((mesh.positions.len(), mesh.width), (90, 3));
    assert_eq!(mesh.elements.len(), 3 * (39 - 2 * 9));
    assert_eq!(mesh.element_fields[0].bytes.len(), 4 * (39 - 2 * 9));
    let lines = read(Kind::Polyline, Polygons::Same).unwrap();
    assert_eq!(lines.lengths, [2, 5, 3]);
    assert_eq!(lines.positions.len(), 30);
    assert_eq!(lines.object_fields[0].bytes.len(), 12);
    let graph = read(Kind::Graph, Polygons::Same).unwrap();
    assert_eq!(graph.elements.len(), 2 * (1 + 4 + 2));
    let points = read(Kind::PointCloud, Polygons::Same).unwrap();
    assert_eq!(points.fields.len(), 5);
}

#[test]
fn refuses_malformed_numbers_in_xml() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.vtp");
    #[rustfmt::skip]
    let table = [
        (r#"type="String" NumberOfTuples="1" format="ascii">104 105 x 0"#, "codes of characters", "\"x\""),
        (r#"type="String" NumberOfTuples="1" format="ascii">104 99999 0"#, "codes of characters", "\"99999\""),
        (r#"type="String" NumberOfTuples="1" format="ascii">104 300 0"#, "codes of characters", "\"300\""),
        (r#"type="Int32" NumberOfTuples="1e3" format="ascii">7"#, "a count as NumberOfTuples", "\"1e3\""),
        (r#"type="Int32" NumberOfTuples="-1" format="ascii">7"#, "a count as NumberOfTuples", "\"-1\""),
    ];
    for (array, expected, found) in table {
        let text = format!(
            r#"<VTKFile type="PolyData"><PolyData><FieldData><DataArray Name="a" {array}</DataArray></FieldData></PolyData></VTKFile>"#
        );
        std::fs::write(&path, text).unwrap();
        let error = parse(&path).unwrap_err();
        let (error, message) = (error.to_string(), format!(": expected {expected}, found {found}"));
        assert!(error.starts_with("Encoding in VTP, DataArray \"a\" at byte "), "{error}");
        assert!(error.ends_with(&message), "{error}");
    }
}
