//! Tests of h5ad files: valid and broken.

use zvf_formats::{ColumnRoles, Input, ReadOptions};

use crate::shared::golden::{Collected, check_files, folder, read_expected, read_input};

#[test]
fn reads_files_of_anndata() {
    check_files("h5ad", &ReadOptions::default());
    for (name, facts) in read_expected("h5ad")["files"].as_object().unwrap() {
        let all = Collected::read(&folder("h5ad").join(name), &ReadOptions::default()).unwrap();
        for column in facts["vertex_attributes"].as_array().unwrap() {
            let field = all.fields.iter().find(|field| column["name"] == field.name);
            if let (Some(codes), Some(field)) = (column.get("codes"), field) {
                assert_eq!(serde_json::json!(field.categories), column["categories"], "{name}");
                assert_eq!(codes["dtype"], field.dtype);
            }
        }
        let (_, record) = &all.header.records[0];
        if let Some(names) = facts["ids"].get("values") {
            assert_eq!(record["obs_names"], *names);
        }
    }
}

#[test]
fn reads_named_positions() {
    let path = folder("h5ad").join("plain.h5ad");
    let named = |name: &str| {
        let columns = ColumnRoles { positions: vec![name.into()], ..ColumnRoles::default() };
        Collected::read(&path, &ReadOptions { columns, ..ReadOptions::default() })
    };
    assert_eq!(named("X_umap").unwrap().header.positions.dtype(), zvf_metadata::Dtype::FLOAT32);
    let error = named("X_pca").err().unwrap().to_string();
    assert!(error.contains("expected obsm/X_pca, found X_umap, spatial"), "{error}");
}

#[test]
fn refuses_a_cut_file() {
    let bytes = std::fs::read(folder("h5ad").join("plain.h5ad")).unwrap();
    let read = |bytes: Vec<u8>| {
        let input = Input::reader(std::io::Cursor::new(bytes));
        read_input(input, &ReadOptions::default())
            .map(|all| all.rows())
            .map_err(|error| error.class())
    };
    assert_eq!(read(bytes.clone()), Ok(40));
    assert_eq!(read(bytes[..bytes.len() / 2].to_vec()), Err(zvf_format::Class::Truncated));
}

#[test]
fn notes_unreadable_data_as_left_out() {
    use crate::read::{Node, describe_left_out, describe_other_positions};
    let fault = || zvf_formats::read_failed(std::io::Error::other("the end of the disk"));
    let note = |node, members| describe_left_out("uns", "unstructured data", node, || members);
    let note_of_data = Some("uns: unstructured data".to_owned());
    assert_eq!(note(Ok(Node::Missing), Ok(Vec::new())), None);
    assert_eq!(note(Ok(Node::Group), Ok(Vec::new())), None);
    assert_eq!(note(Ok(Node::Group), Ok(vec!["a".to_owned()])), note_of_data);
    assert_eq!(note(Ok(Node::Dataset), Ok(Vec::new())), note_of_data);
    for found in [note(Err(fault()), Ok(Vec::new())), note(Ok(Node::Group), Err(fault()))] {
        let found = found.unwrap();
        assert!(found.starts_with("uns: unstructured data, which cannot be read: "), "{found}");
    }
    let names = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(describe_other_positions(names(&["spatial"]), "spatial"), None);
    let note_of_other = Some("obsm: X_pca".to_owned());
    assert_eq!(describe_other_positions(names(&["X_pca", "spatial"]), "spatial"), note_of_other);
    let found = describe_other_positions(Err(fault()), "spatial").unwrap();
    assert!(found.starts_with("obsm: other positions, which cannot be listed: "), "{found}");
}

#[test]
fn texts_of_fixed_width_are_within_the_memory_limit() {
    let mut file = hdf5_pure::FileBuilder::new();
    file.create_dataset("t").with_ascii_strings_sized(&["a"; 3], 1 << 20).unwrap();
    let bytes = file.finish().unwrap();
    let bytes = || Box::new(std::io::Cursor::new(bytes.clone()));
    let open = |memory| super::H5::open(super::Bytes::new(bytes(), None), memory).unwrap();
    let error = open(6 << 20).read_texts("t").unwrap_err();
    assert_eq!(error.class(), zvf_format::Class::LimitExceeded);
    let file = open(7 << 20);
    assert_eq!(file.read_texts("t").unwrap(), ["a"; 3]);
    assert!(file.memory() < 1 << 20, "{}", file.memory());
}
