//! Writing batches to a file or to standard output, in one of the formats.

use std::cell::RefCell;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::rc::Rc;

use anyhow::Context as _;
use zvf::convert::write::{self, Target, WriteOptions};
use zvf::convert::{Format, elements_as_rows};
use zvf::format::num::to_u64;
use zvf::metadata::Dtype;
use zvf::model::flow::{Header, Piece, Sink};
use zvf::{Batch, Column, Error, Kind};

use crate::target::Out;

/// The formats with one row for each vertex; two of them hold elements too.
pub(super) const TABLES: &[Format] = &[
    Format::Npy,
    Format::Csv,
    Format::Jsonl,
    Format::Ply,
    #[cfg(feature = "arrow")]
    Format::Arrow,
    #[cfg(feature = "arrow")]
    Format::Arrows,
    #[cfg(feature = "arrow")]
    Format::Parquet,
];

/// Returns whether one file holds vertices and elements.
pub(super) const fn holds_elements(format: Format) -> bool {
    matches!(format, Format::Jsonl | Format::Ply)
}

/// Returns whether the format can be written batch by batch.
pub(super) const fn streams(format: Format) -> bool {
    !matches!(format, Format::Ply)
}

/// Returns standard output, buffered as the format requires.
pub(super) fn to_stream(format: Format, out: &mut dyn Write) -> Out<'_> {
    match format == Format::Npy {
        true => Out::Held(Cursor::new(Vec::new()), out),
        false => Out::Stream(out),
    }
}

/// Writes an answer batch by batch.
pub(crate) struct AnswerSink<'a> {
    vertices: Table<'a>,
    elements: Option<Table<'a>>,
    holds_elements: bool,
    without_elements: bool,
    written: u64,
    left_out: u64, // elements that the format cannot hold
}

/// One file.
struct Table<'a> {
    sink: Box<dyn Sink + 'a>,
    out: SharedOut<'a>,
    axes: Vec<String>,
    has_begun: bool,
}

/// The target of a sink, which is ended after it.
#[derive(Clone)]
struct SharedOut<'a>(Rc<RefCell<Out<'a>>>);

impl<'a> AnswerSink<'a> {
    /// Creates a sink of `format` to `out` with the names of the axes; edges and faces go to `elements`, of the same
    /// format, or nowhere when `without_elements`.
    pub(crate) fn new(
        format: Format,
        out: Out<'a>,
        elements: Option<(Format, Out<'a>)>,
        without_elements: bool,
        axes: &[String],
        memory: Option<u64>,
    ) -> Result<Self, Error> {
        let mut options = WriteOptions::default();
        options.memory = memory.unwrap_or(options.memory);
        let vertices = Table::new(format, out, axes.to_vec(), &options)?;
        options.first_column = "vertices";
        let corners = (0..MAX_CORNERS).map(|at| format!("v{at}")).collect();
        let elements = elements.map(|(format, out)| Table::new(format, out, corners, &options));
        Ok(Self {
            vertices,
            elements: elements.transpose()?,
            holds_elements: holds_elements(format),
            without_elements,
            written: 0,
            left_out: 0,
        })
    }

    /// Adds a batch.
    pub(crate) fn write(&mut self, batch: Batch) -> anyhow::Result<()> {
        let mut omits = self.without_elements;
        if let Some(table) = &mut self.elements {
            if let Some(rows) = elements_as_rows(&batch, self.written)? {
                table.write(rows)?;
            }
        } else if !omits && !self.holds_elements {
            let elements = batch.elements().map_or(0, zvf::Elements::len);
            self.left_out += to_u64(elements);
            omits = true;
        }
        self.written += to_u64(batch.len());
        self.vertices.write(if omits { batch.without_elements() } else { batch })
    }

    /// Completes the files, which get their names only now. Returns the number of elements that the format cannot hold.
    pub(crate) fn finish(mut self, kind: Kind) -> anyhow::Result<u64> {
        if let Some(table) = self.elements.as_mut().filter(|table| !table.has_begun) {
            let nothing = Column::new(Dtype::INT64, EDGE_CORNERS, Vec::new().into())?;
            table.write(Batch::new(kind, nothing))?;
        }
        self.vertices.finish()?;
        self.elements.map_or(Ok(()), Table::finish)?;
        Ok(self.left_out)
    }
}

impl<'a> Table<'a> {
    fn new(
        format: Format,
        out: Out<'a>,
        axes: Vec<String>,
        options: &WriteOptions,
    ) -> Result<Self, Error> {
        let out = SharedOut(Rc::new(RefCell::new(out)));
        let sink = write::open(format, Target::file(out.clone()), options)?;
        Ok(Self { sink, out, axes, has_begun: false })
    }

    fn write(&mut self, batch: Batch) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.sink.begin(&Header::from_batch(&batch, self.axes.clone()))?;
        }
        Ok(self.sink.write(Piece::Vertices(batch))?)
    }

    fn finish(self) -> anyhow::Result<()> {
        self.sink.finish()?;
        let out = Rc::into_inner(self.out.0).context("the sink still has its target")?;
        out.into_inner().finish()
    }
}

impl Write for SharedOut<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

impl Seek for SharedOut<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.borrow_mut().seek(to)
    }
}

/// The columns of an empty table of elements.
const EDGE_CORNERS: u32 = 2;
/// The largest number of vertices of an element.
const MAX_CORNERS: usize = 8;
