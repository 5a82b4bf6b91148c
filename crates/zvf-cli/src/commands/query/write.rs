//! Writing batches to a file or to standard output, in one of the formats.

use std::io::Cursor;
use std::path::Path;

use clap::ValueEnum;
#[cfg(feature = "arrow")]
use zvf::convert::{ArrowWriter, ParquetWriter};
use zvf::convert::{CsvWriter, JsonlWriter, NpyWriter, elements_as_rows, write_ply};
use zvf::format::num::to_u64;
use zvf::metadata::Dtype;
use zvf::{Batch, Column, Kind};

use crate::target::Out;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A NumPy array, one record a vertex.
    Npy,
    /// Comma-separated text, one line a vertex.
    Csv,
    /// JSON lines: vertices, or parts with their vertices; then edges or faces.
    Jsonl,
    /// The polygon file format: vertices, edges or faces.
    Ply,
    /// An Arrow file, one row a vertex.
    #[cfg(feature = "arrow")]
    Arrow,
    /// The same as a stream, which can be read while it is written.
    #[cfg(feature = "arrow")]
    Arrows,
    /// A Parquet file, one row a vertex.
    #[cfg(feature = "arrow")]
    Parquet,
}

impl Format {
    /// Returns the format of the extension of a file.
    pub(crate) fn from_extension(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "ndjson" | "json" => Some(Self::Jsonl),
            #[cfg(feature = "arrow")]
            "feather" | "ipc" => Some(Self::Arrow),
            name => Self::from_str(name, true).ok(),
        }
    }

    /// Returns the extensions of all formats.
    pub(crate) fn extensions() -> Vec<String> {
        let names = Self::value_variants().iter().filter_map(Self::to_possible_value);
        names.map(|name| format!(".{}", name.get_name())).collect()
    }

    /// Returns whether one file holds vertices and elements.
    pub(crate) const fn holds_elements(self) -> bool {
        matches!(self, Self::Jsonl | Self::Ply)
    }

    /// Returns whether the format can be written batch by batch.
    pub(crate) const fn streams(self) -> bool {
        !matches!(self, Self::Ply)
    }

    /// Returns standard output, buffered as the format requires.
    pub(crate) fn to_stream(self, out: &mut dyn std::io::Write) -> Out<'_> {
        match self {
            Self::Npy => Out::Held(Cursor::new(Vec::new()), out),
            Self::Csv | Self::Jsonl | Self::Ply => Out::Stream(out),
            #[cfg(feature = "arrow")]
            Self::Arrow | Self::Arrows | Self::Parquet => Out::Stream(out),
        }
    }
}

/// Writes an answer batch by batch.
#[derive(Debug)]
pub(crate) struct Sink<'a> {
    vertices: Table<'a>,
    elements: Option<Table<'a>>,
    without_elements: bool,
    axes: &'a [String],
    written: u64,
    has_elements: bool, // whether the table of elements has its columns
    left_out: u64,      // elements that the format cannot hold
}

/// One file.
#[derive(Debug)]
enum Table<'a> {
    Npy(NpyWriter<Out<'a>>),
    Csv(CsvWriter<Out<'a>>),
    Jsonl(JsonlWriter<Out<'a>>),
    Ply(Out<'a>),
    #[cfg(feature = "arrow")]
    Arrow(ArrowWriter<Out<'a>>),
    #[cfg(feature = "arrow")]
    Parquet(Box<ParquetWriter<Out<'a>>>),
}

impl<'a> Sink<'a> {
    /// Creates a sink of `format` to `out` with the names of the axes; edges and faces go to `elements`, of the same
    /// format, or nowhere when `without_elements`.
    pub(crate) fn new(
        format: Format,
        out: Out<'a>,
        elements: Option<(Format, Out<'a>)>,
        without_elements: bool,
        axes: &'a [String],
    ) -> Self {
        let vertices = match format {
            Format::Npy => Table::Npy(NpyWriter::new(out)),
            Format::Csv => Table::Csv(CsvWriter::new(out, axes)),
            Format::Jsonl => Table::Jsonl(JsonlWriter::new(out)),
            Format::Ply => Table::Ply(out),
            #[cfg(feature = "arrow")]
            Format::Arrow => Table::Arrow(ArrowWriter::file(out, "position")),
            #[cfg(feature = "arrow")]
            Format::Arrows => Table::Arrow(ArrowWriter::stream(out, "position")),
            #[cfg(feature = "arrow")]
            Format::Parquet => Table::Parquet(ParquetWriter::new(out, "position").into()),
        };
        let elements = elements.map(|(format, out)| match format {
            Format::Npy => Table::Npy(NpyWriter::new(out).with_positions_name("vertices")),
            #[cfg(feature = "arrow")]
            Format::Arrow => Table::Arrow(ArrowWriter::file(out, "vertices")),
            #[cfg(feature = "arrow")]
            Format::Arrows => Table::Arrow(ArrowWriter::stream(out, "vertices")),
            #[cfg(feature = "arrow")]
            Format::Parquet => Table::Parquet(ParquetWriter::new(out, "vertices").into()),
            Format::Csv | Format::Jsonl | Format::Ply => {
                let names: Vec<String> = (0..MAX_CORNERS).map(|at| format!("v{at}")).collect();
                Table::Csv(CsvWriter::new(out, &names))
            }
        });
        let (written, has_elements, left_out) = (0, false, 0);
        Self { vertices, elements, without_elements, axes, written, has_elements, left_out }
    }

    /// Limits the buffers to a part of the memory limit.
    pub(crate) fn limit_memory(self, limit: u64) -> Self {
        #[cfg(feature = "arrow")]
        if let Table::Parquet(writer) = self.vertices {
            let bytes = zvf::format::num::saturating_usize(limit / ROW_GROUPS_OF_MEMORY); // only lowers
            let vertices = Table::Parquet(Box::new(writer.with_row_group_bytes(bytes)));
            return Self { vertices, ..self };
        }
        let _no_buffers_that_grow = limit;
        self
    }

    /// Adds a batch.
    pub(crate) fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let mut omits = self.without_elements;
        if let Some(table) = &mut self.elements {
            if let Some(rows) = elements_as_rows(batch, self.written)? {
                table.write(&rows, &[])?;
                self.has_elements = true;
            }
        } else if !omits && !self.vertices.holds_elements() {
            let elements = batch.elements().map_or(0, zvf::Elements::len);
            self.left_out += to_u64(elements);
            omits = true;
        }
        let bare;
        let batch = match omits && batch.elements().is_some() {
            true => {
                bare = without_elements(batch)?;
                &bare
            }
            false => batch,
        };
        self.written += to_u64(batch.len());
        self.vertices.write(batch, self.axes)
    }

    /// Completes the files, which get their names only now. Returns the number of elements that the format cannot hold.
    pub(crate) fn finish(mut self, kind: Kind) -> anyhow::Result<u64> {
        if let Some(table) = self.elements.as_mut().filter(|_| !self.has_elements) {
            let nothing = Column::new(Dtype::INT64, EDGE_CORNERS, Vec::new().into())?;
            table.write(&Batch::new(kind, nothing), &[])?;
        }
        self.vertices.finish()?;
        self.elements.map_or(Ok(()), Table::finish)?;
        Ok(self.left_out)
    }
}

impl Table<'_> {
    const fn holds_elements(&self) -> bool {
        matches!(self, Self::Jsonl(_) | Self::Ply(_))
    }

    fn write(&mut self, batch: &Batch, axes: &[String]) -> anyhow::Result<()> {
        match self {
            Self::Npy(writer) => writer.write(batch)?,
            Self::Csv(writer) => writer.write(batch)?,
            Self::Jsonl(writer) => writer.write(batch)?,
            Self::Ply(out) => write_ply(batch, axes, out)?,
            #[cfg(feature = "arrow")]
            Self::Arrow(writer) => writer.write(batch)?,
            #[cfg(feature = "arrow")]
            Self::Parquet(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Npy(writer) => writer.finish()?,
            Self::Csv(writer) => writer.finish()?,
            Self::Jsonl(writer) => writer.finish()?,
            Self::Ply(out) => out,
            #[cfg(feature = "arrow")]
            Self::Arrow(writer) => writer.finish()?,
            #[cfg(feature = "arrow")]
            Self::Parquet(writer) => writer.finish()?,
        }
        .finish()
    }
}

/// Returns the vertices of a batch and their attributes.
fn without_elements(batch: &Batch) -> anyhow::Result<Batch> {
    let mut bare = Batch::new(batch.kind(), batch.positions().clone());
    for field in batch.fields() {
        bare = bare.with_field(field.clone())?;
    }
    if let Some(objects) = batch.vertex_objects() {
        bare = bare.with_vertex_objects(objects.to_vec())?;
    }
    if !batch.parts().offsets().is_empty() {
        bare = bare.with_parts(batch.parts().clone())?;
    }
    Ok(bare)
}

/// The number of row groups that the memory limit could hold; encoding one takes several times its bytes.
#[cfg(feature = "arrow")]
const ROW_GROUPS_OF_MEMORY: u64 = 16;
/// The columns of an empty table of elements.
const EDGE_CORNERS: u32 = 2;
/// The largest number of vertices of an element.
const MAX_CORNERS: usize = 8;
