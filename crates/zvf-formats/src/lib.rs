//! Shared code of all file formats: the declaration of a format, and parts of readers and writers.
//!
//! ```text
//! spec, capabilities   the declaration of a format: names, detection, reader, writer, capabilities
//! read                 input, lines, columns and pieces of a reader
//! write                targets, collected pieces, losses and parts of a writer
//! table, elements      a batch as rows of scalars, and its edges or faces as a table
//! draco, isolate       Draco streams as columns; decoders of others, whose panics become errors
//! affine, calendar, dtypes, error
//! ```
//!
//! A format is a folder in a crate of its family (`zvf-formats-tables`, `-arrow`, `-gis`, `-neuro`,
//! `-mesh`, `-h5ad`): a [`Spec`] with its reader and its writer. A reader yields a header and
//! pieces, and a writer takes them, so that every format can be converted to every other.
//! `zvf-convert` has the table of all formats.
//!
//! The crate is for those families: its items change with them.
//!
//! Not here: single formats; stores, chunks and fragments.

#![expect(
    clippy::missing_errors_doc,
    reason = "all functions that can fail give the error of a file that cannot be read or written"
)]
#![expect(
    missing_debug_implementations,
    reason = "readers and writers hold streams, which have none"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named is refused, or kept as it is"
)]

mod affine;
mod calendar;
mod capabilities;
pub mod draco;
mod dtypes;
mod elements;
mod error;
pub mod isolate;
mod read;
mod spec;
mod table;
mod write;

pub use affine::{Affine, cross, dot};
pub use calendar::civil_date;
pub use capabilities::{
    ALL_KINDS, Attributes, CHAINS, Capabilities, GroupSupport, IdSupport, POSITIONS_ONLY, TABLE,
    UnitSupport,
};
pub use dtypes::{
    BOOL, FLOAT64, INT8, INT16, INT32, NUMBERS, UINT8, UINT16, UINT32, UINT64, dtype,
    missing_number,
};
pub use elements::{element_vertices, elements_as_rows, fan, neighbours, row_number};
pub use error::{
    ByteFault, FilePlace, Spot, bad_code, cannot_hold, other_columns, read_failed, worded_error,
};
pub use read::crs::describe_crs;
pub use read::features::{
    FeatureCell, FeatureColumns, FeatureInfo, FeatureShape, FeatureSource, FeatureTarget, PartKind,
    ShapePart, with_units,
};
pub use read::flatbuffer::{FlatTable, StrayOffset};
pub use read::geometry::{
    WholeFile, WholeGeometry, categorical_field, number_column, open_companion, slice_batch,
    text_field, whole_numbers,
};
pub use read::labels::{AddText, batch_rows, fit_texts, text_bytes};
pub use read::lines::{Lines, MAX_LINE_BYTES};
pub use read::packed::{decode_base64, encode_base64, inflate, unpack_lz4, unpack_xz};
pub use read::percent_encoding::decode_percent;
pub use read::polygon::{Corners, MAX_CORNERS};
pub use read::record::{PieceBuilder, VertexBuilder, block_rows};
pub use read::roles::{
    AXES, FieldNames, MAX_AXES, OBJECT, PART, RecordField, RecordTable, build_vertices,
    check_position_type, default_axes, describe_owner_ids, owner_at, point_kind, record_bytes,
};
pub use read::source::{RandomFile, RecordNumbers, Sequence, slice_len};
pub use read::values::{
    Labels, NamedValues, Values, column_error, empty_fields, is_exact_float64, narrow_column,
    new_column, parse_f64, push_text, quote, quote_start, survives_float32, take_fields,
    without_rows,
};
pub use read::xml::{Element, Xml};
pub use read::zip::{Archive, Member};
pub use read::{
    Bytes, ColumnRoles, Extents, FileReader, Input, Measure, Notes, Polygons, ReadOptions,
    TextOptions, crs,
};
pub use spec::{Spec, Start, WriteFn, begins_with_element, recognizes_nothing};
pub use table::{
    Scalar, ScalarSource, Table, arrange_rows, field_value, gather_rows, json_items, owner_ids,
    row_to_json, shortest_float, value_name, value_places, value_to_json, whole_number,
};
pub use write::chains::{Chains, Millimeters, Run, meters_per_unit};
pub use write::collect::{FieldBuilder, from_bad_batch};
pub use write::collected_input::{
    CollectedInput, format_coordinate, format_number, format_value, to_f32_bytes,
};
pub use write::features::{FEATURES, FeatureSink, FeatureWriter, arrange_field, free_name};
pub use write::rows::BatchWriter;
pub use write::spool::Spool;
pub use write::zip::ZipWriter;
pub use write::{
    CollectedPieces, Encoded, FormatOptions, NewFile, Opened, OpenedWriter, PieceWriter, SeekWrite,
    Target, copy, count_u32, counted_loss, find_losses, find_record, narrow, second_kind,
};
