//! A small packed store, read back from one map; and invalid packs.

use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::pack::{CellTable, Documents, cells_geometry, encode_cells, encode_documents};
use crate::{DatasetSpec, MemoryBudget, TensorCodec, TetLayout, TetView};

/// A file with these datasets, one raw chunk each.
fn file(datasets: &[(&str, TileGeometry, &[u8])]) -> Vec<u8> {
    let specs: Vec<_> = datasets.iter().map(|(name, g, _)| DatasetSpec::new(name, *g)).collect();
    let mut layout = TetLayout::new(&specs, MemoryBudget::DEFAULT).unwrap();
    let mut bytes = std::vec![0; usize::try_from(layout.prefix_len()).unwrap()];
    for (_, _, payload) in datasets {
        let offset = layout.place(TensorCodec::Raw, num::to_u64(payload.len())).unwrap();
        bytes.resize(usize::try_from(offset).unwrap(), 0);
        bytes.extend_from_slice(payload);
    }
    let prefix = layout.finish(false).unwrap();
    bytes[..prefix.len()].copy_from_slice(&prefix);
    bytes
}

fn geometry(element: TensorDtype, shape: &[u64]) -> TileGeometry {
    TileGeometry::new(element, shape, shape).unwrap()
}

#[test]
fn a_cell_is_a_search_and_a_slice() {
    let documents = encode_documents([("", &b"{}"[..]), ("0/vertices", b"{\"a\":1}")]).unwrap();
    let table = encode_cells(2, [([0, 1], 1), ([3, 0], 2)]).unwrap();
    let vertices: Vec<u8> = (0..9_u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    let bytes = file(&[
        (DOCUMENTS, geometry(TensorDtype::U8, &[num::to_u64(documents.len())]), &documents),
        ("0/vertices", geometry(TensorDtype::F32, &[3, 3]), &vertices),
        ("0/vertices/cells", cells_geometry(2, 2).unwrap(), &table),
        ("0/names", geometry(TensorDtype::U8, &[4]), b"mask"),
    ]);
    let file = TetView::parse_strict(&bytes).unwrap();
    let payload = |id| {
        let span = file.lookup(id).unwrap().select_all().unwrap().dense_span().unwrap();
        assert_eq!(span.offset % 64, 0);
        &bytes[usize::try_from(span.offset).unwrap()..][..usize::try_from(span.len).unwrap()]
    };

    let contents = Contents::parse(&file.directory()).unwrap();
    let found = Documents::parse(payload(contents.documents().id())).unwrap();
    assert_eq!(found.get("0/vertices").unwrap(), Some(&b"{\"a\":1}"[..]));

    let array = contents.array("0/vertices").unwrap().unwrap();
    assert_eq!((array.cell_rank(), array.rows(), array.row_len()), (2, 3, 12));
    assert_eq!((array.values().id(), array.geometry().rank()), (1, 2));
    let table = payload(array.cells().unwrap().id());
    let table = CellTable::parse(table, array.cell_rank(), array.rows()).unwrap();
    let span = array.span(&table.find(&[3, 0]).unwrap().unwrap()).unwrap();
    assert_eq!(span, Span { offset: 12, len: 24 });

    let dense = contents.array("0/names").unwrap().unwrap();
    assert_eq!((dense.cell_rank(), dense.rows(), dense.row_len()), (0, 4, 1));
    assert!(dense.cells().is_none() && contents.array("0/nothing").unwrap().is_none());
    // A row past the values, from a table with another number of rows.
    let encoded = encode_cells(2, [([0, 0], 4)]).unwrap();
    let cell = CellTable::parse(&encoded, 2, 4).unwrap().get(0).unwrap().unwrap();
    assert_eq!(array.span(&cell), None);
}

#[test]
fn each_check_has_its_message() {
    let u8s = geometry(TensorDtype::U8, &[2]);
    let json = (DOCUMENTS, u8s, &b"{}"[..]);
    #[rustfmt::skip]
    let table = [
        (Vec::from([("a", u8s, &b"{}"[..])]), "BadTag in pack, documents at byte 0: expected a dataset zvf/store.json, found a file that is no pack"),
        (Vec::from([(DOCUMENTS, geometry(TensorDtype::U16, &[1]), &b"{}"[..])]), "BadShape in pack, documents at byte 0: expected u8 with one axis, found another type or rank"),
        (Vec::from([(DOCUMENTS, geometry(TensorDtype::U8, &[1, 2]), &b"{}"[..])]), "BadShape in pack, documents at byte 0: expected u8 with one axis, found another type or rank"),
        (Vec::from([json, ("a/cells", cells_geometry(1, 1).unwrap(), &[0; 24])]), "CountMismatch in pack, cells at byte 0: expected values beside a table of cells, found none"),
        (Vec::from([json, ("a", u8s, b"{}"), ("a/cells", geometry(TensorDtype::U64, &[1, 3]), &[0; 24])]), "BadShape in pack, cells at byte 0: expected i64 with three columns or more, found another type or shape"),
        (Vec::from([json, ("a", u8s, b"{}"), ("a/cells", geometry(TensorDtype::I64, &[1, 2]), &[0; 16])]), "BadShape in pack, cells at byte 0: expected i64 with three columns or more, found another type or shape"),
        (Vec::from([json, ("a", u8s, b"{}"), ("a/cells", geometry(TensorDtype::I64, &[3]), &[0; 24])]), "BadShape in pack, cells at byte 0: expected i64 with three columns or more, found another type or shape"),
        (Vec::from([json, ("a", u8s, b"{}"), ("a/cells", geometry(TensorDtype::I64, &[1, 3, 1]), &[0; 24])]), "BadShape in pack, cells at byte 0: expected i64 with three columns or more, found another type or shape"),
    ];
    for (datasets, message) in table {
        let bytes = file(&datasets);
        let directory = TetView::parse(&bytes).unwrap().directory();
        let found = Contents::parse(&directory).and_then(|contents| contents.array("a"));
        assert_eq!(found.unwrap_err().to_string(), message);
    }
    // An unknown type is an error of the directory.
    let mut bytes = file(&[json, ("a", u8s, b"{}")]);
    let dtype = 40 + 48 + 4;
    bytes[dtype] = 77;
    let directory = TetView::parse(&bytes).unwrap().directory();
    let contents = Contents::parse(&directory).unwrap();
    assert_eq!(contents.array("a").unwrap_err().class, Class::BadTag);
}
