//! Helpers for the tests of formats: a file as text, and comparisons with what others read.
//!
//! The crate that includes this file has its formats in `ALL`, and a `CsvWriter`.

#![expect(dead_code, reason = "each crate uses a part of them")]

pub(crate) mod golden;

use std::error::Error as _;
use std::io::Write as _;

use zvf_error::{Error, Result, join_causes};
use zvf_formats::{
    BatchWriter as _, FileReader, FormatOptions, Input, Opened, ReadOptions, Spec, Target, copy,
    elements_as_rows,
};
use zvf_metadata::Dtype;
use zvf_model::flow::{FlowReport, Header, Piece};
use zvf_model::{Batch, Column, Kind};

use crate::CsvWriter;

/// Opens a file as a format, or as the format of this crate that its bytes or its name show.
pub(crate) fn open(
    input: Input,
    format: Option<&'static Spec>,
    options: &ReadOptions,
) -> Result<FileReader> {
    let mut bytes = input.begin()?;
    let start = bytes.start()?;
    let name = start.path.and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
    let extension = |spec: &&Spec| {
        let ends = spec.extensions.iter().filter(|end| name.ends_with(&format!(".{end}")));
        ends.map(|end| end.len()).max().unwrap_or_default()
    };
    let recognized = crate::ALL.iter().copied().find(|spec| (spec.recognizes)(&start));
    let named = crate::ALL.iter().copied().max_by_key(extension);
    let format = format.or(recognized).or(named).unwrap();
    format.open(bytes, options)
}

/// Opens a writer of a format.
pub(crate) fn create<'a>(format: &Spec, target: Target<'a>, options: &FormatOptions) -> Opened<'a> {
    format.create(target, options).unwrap()
}

/// Returns the pieces of a file of a format.
pub(crate) fn pieces(bytes: &[u8], format: &'static Spec, options: &ReadOptions) -> Vec<Piece> {
    let input = Input::reader(std::io::Cursor::new(bytes.to_vec()));
    open(input, Some(format), options).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Writes what a reader reads to a file of a format.
pub(crate) fn convert(
    reader: FileReader,
    format: &Spec,
    options: &FormatOptions,
) -> Result<(Vec<u8>, FlowReport)> {
    let mut file = std::io::Cursor::new(Vec::new());
    let report = copy(reader, create(format, Target::file(&mut file), options)?)?;
    Ok((file.into_inner(), report))
}

/// Creates a column from the name of its type.
pub(crate) fn column(dtype: &str, width: u32, bytes: &[u8]) -> Column {
    Column::new(dtype.parse::<Dtype>().unwrap(), width, bytes.to_vec().into()).unwrap()
}

/// Formats the contents of a file as text: the header, then the pieces.
pub(crate) fn dump(
    format: &'static Spec,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<String, String> {
    let input = Input::reader(std::io::Cursor::new(bytes.to_vec()));
    dump_reader(open(input, Some(format), options))
}

/// Formats the contents of a file on disk as text.
pub(crate) fn dump_file(
    format: &'static Spec,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<String, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    dump_reader(open(Input::path(file.path()), Some(format), options))
}

/// Returns why a file of `format` was refused: the class, the place, and what was expected and found there.
pub(crate) fn fault<T: std::fmt::Debug>(read: Result<T, String>, format: &str) -> String {
    let error = read.unwrap_err();
    let (class, fault) = error.split_once(&format!(" in {format}, ")).expect(&error);
    let (place, fault) = fault.split_once(": expected ").expect(&error);
    format!("{class}, {place}: {fault}")
}

/// Formats the header and the pieces of a reader as text.
pub(crate) fn dump_reader(reader: Result<FileReader>) -> Result<String, String> {
    let describe = |error: Error| join_causes(&error, error.source());
    let reader = reader.map_err(describe)?;
    let mut text = header_text(reader.header());
    let declared = reader.header().clone();
    let mut vertices = 0;
    for piece in reader {
        match piece.map_err(describe)? {
            Piece::Vertices(batch) => {
                assert_eq!(batch.positions().dtype(), declared.positions.dtype());
                assert_eq!(batch.positions().width(), declared.positions.width());
                let names = |fields: &[zvf_model::Field]| {
                    let fields = fields.iter();
                    fields
                        .map(|f| (f.name.clone(), f.column.dtype(), f.column.width()))
                        .collect::<Vec<_>>()
                };
                assert_eq!(names(batch.fields()), names(&declared.fields));
                let has_objects =
                    batch.vertex_objects().is_some() || !batch.parts().offsets().is_empty();
                assert_eq!(has_objects, declared.objects);
                text.push_str(&rows_text(&batch, &declared.axes));
                if let Some(ends) = elements_as_rows(&batch, vertices).unwrap() {
                    text.push_str(&rows_text(&ends, &corner_names()));
                }
                vertices += u64::try_from(batch.len()).unwrap();
            }
            Piece::Elements { rows: vertices, fields } => {
                let batch = Batch::new(Kind::Graph, vertices);
                let batch = fields.into_iter().try_fold(batch, Batch::with_field).unwrap();
                text.push_str(&rows_text(&batch, &corner_names()));
            }
            Piece::Objects { ids, fields } => {
                let ids: Vec<u8> = ids.iter().flat_map(|id| id.0.to_le_bytes()).collect();
                let ids = Column::new(Dtype::INT64, 1, ids.into()).unwrap();
                let batch = Batch::new(Kind::PointCloud, ids);
                let batch = fields.into_iter().try_fold(batch, Batch::with_field).unwrap();
                text.push_str(&rows_text(&batch, &["id".to_owned()]));
            }
            Piece::Groups { groups, .. } => {
                for group in groups {
                    let members: Vec<i64> = group.members.iter().map(|id| id.0).collect();
                    text.push_str(&format!("group {:?} {members:?}\n", group.name));
                }
            }
        }
    }
    Ok(text)
}

fn corner_names() -> [String; 4] {
    ["v0", "v1", "v2", "v3"].map(str::to_owned)
}

fn header_text(header: &Header) -> String {
    let mut text = format!("{} of {}", header.kind, header.positions.dtype());
    for field in header.fields.iter().chain(&header.object_fields) {
        text.push_str(&format!(", {} {}", field.name, field.column.dtype()));
    }
    if let Some(elements) = &header.elements {
        text.push_str(&format!(", elements of {:?}", elements.width));
    }
    for out in &header.left_out {
        text.push_str(&format!(", not {out}"));
    }
    for note in &header.notes {
        text.push_str(&format!(", note {note}"));
    }
    text.push('\n');
    text
}

fn rows_text(batch: &Batch, axes: &[String]) -> String {
    let mut text = Vec::new();
    CsvWriter::new(&mut text, axes).write(batch).unwrap();
    String::from_utf8(text).unwrap()
}
