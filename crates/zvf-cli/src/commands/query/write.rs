//! Batches to a file or to standard output, in one of the formats.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::Path;

use clap::ValueEnum;
use zvf::Batch;
#[cfg(feature = "arrow")]
use zvf::convert::{ArrowWriter, ParquetWriter};
use zvf::convert::{CsvWriter, JsonlWriter, NpyWriter, elements_as_rows, write_ply};

use crate::outcome::Usage;
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
    /// The format that the name of a file ends with.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "ndjson" | "json" => Some(Self::Jsonl),
            #[cfg(feature = "arrow")]
            "feather" | "ipc" => Some(Self::Arrow),
            known => Self::from_str(known, true).ok(),
        }
    }

    /// Whether one file of it holds vertices and what joins them.
    pub(crate) const fn holds_elements(self) -> bool {
        matches!(self, Self::Jsonl | Self::Ply)
    }

    /// Whether it can be written batch by batch.
    pub(crate) const fn streams(self) -> bool {
        !matches!(self, Self::Ply)
    }

    /// Standard output, in the way this format can be written to it.
    pub(crate) fn to_stream(self, out: &mut dyn std::io::Write) -> Out<'_> {
        match self {
            Self::Npy => Out::Held(Cursor::new(Vec::new()), out),
            Self::Csv | Self::Jsonl | Self::Ply => Out::Stream(out),
            #[cfg(feature = "arrow")]
            Self::Arrow | Self::Arrows | Self::Parquet => Out::Stream(out),
        }
    }
}

/// What the answer to a question is written with, batch by batch.
#[derive(Debug)]
pub(crate) struct Sink<'a> {
    vertices: Table<'a>,
    elements: Option<Table<'a>>,
    without_elements: bool,
    axes: &'a [String],
    written: u64,
    codes: BTreeSet<String>, // columns of which only codes are written
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
    /// A sink of `format` to `out`, the axes called `axes`; edges and faces to `elements`, of the same
    /// format, or nowhere when `without_elements`.
    pub(crate) fn new(
        format: Format,
        out: Out<'a>,
        elements: Option<Out<'a>>,
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
        let elements = elements.map(|out| match format {
            Format::Npy => Table::Npy(NpyWriter::new(out).calling("vertices")),
            #[cfg(feature = "arrow")]
            Format::Arrow => Table::Arrow(ArrowWriter::file(out, "vertices")),
            #[cfg(feature = "arrow")]
            Format::Arrows => Table::Arrow(ArrowWriter::stream(out, "vertices")),
            #[cfg(feature = "arrow")]
            Format::Parquet => Table::Parquet(ParquetWriter::new(out, "vertices").into()),
            Format::Csv | Format::Jsonl | Format::Ply => {
                let names: Vec<String> = (0..MOST_CORNERS).map(|at| format!("v{at}")).collect();
                Table::Csv(CsvWriter::new(out, &names))
            }
        });
        Self { vertices, elements, without_elements, axes, written: 0, codes: BTreeSet::new() }
    }

    /// Adds a batch.
    pub(crate) fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let bare;
        let batch = match self.without_elements && batch.elements().is_some() {
            true => {
                bare = without_elements(batch)?;
                &bare
            }
            false => batch,
        };
        if let Some(table) = &mut self.elements {
            if let Some(rows) = elements_as_rows(batch, self.written)? {
                table.write(&rows, &[])?;
            }
        } else if batch.elements().is_some() && !self.vertices.holds_elements() {
            let usage =
                Usage::new("this format cannot hold vertices and what joins them in one file");
            let hint = "give --elements FILE, or --no-elements, or write jsonl or ply";
            return Err(usage.with_hint(hint).into());
        }
        if matches!(self.vertices, Table::Npy(_)) {
            let coded = batch.fields().iter().filter(|field| field.categories.is_some());
            self.codes.extend(coded.map(|field| format!("{:?}", &*field.name)));
        }
        self.written = self.written.saturating_add(u64::try_from(batch.len()).unwrap_or(0));
        self.vertices.write(batch, self.axes)
    }

    /// What the files do not hold of what was written to them, and how to keep it.
    pub(crate) fn left_out(&self) -> Option<String> {
        let names: Vec<&str> = self.codes.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| {
            let names = names.join(", ");
            format!("npy holds the codes of {names}, not what they stand for: write csv, jsonl or parquet")
        })
    }

    /// Ends the files. They get their names only now.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        self.vertices.finish()?;
        self.elements.map_or(Ok(()), Table::finish)
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

/// The vertices of a batch and their attributes.
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

/// Vertices that an element of the format can have.
const MOST_CORNERS: usize = 8;
