//! The layout of a new store: chunks are derived from the number of vertices and their extent.
//!
//! The side of a chunk is the same on every axis. It is chosen so that a chunk would contain the
//! desired number of vertices if they were evenly distributed, and rounded to the nearest of 1, 2,
//! 5, 10, 20, … (and 0.5, 0.2, …), so that keys are readable. A chunk is no longer than the
//! geometry.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value as Json;
use zvf_convert::read::FileReader;
use zvf_error::{format_count, group_digits};
use zvf_format::num::to_u64;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::{Header, Piece};
use zvf_model::{Column, Extent, Kind};
use zvf_write::SlicePlan;

use super::ids::{Numbering, Shift};
use super::sizes::{chunk, counts, fit_shard, product, shard};
use super::slices::Slicer;
use super::{CreateStage, OnStage, Recipe, name_file, open, report_progress};
use crate::Error;
use crate::error::{bad_request_error, not_finite_error, other_columns_error};

/// The plan of a store.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("zvf-layout-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("points.csv");
/// std::fs::write(&file, "x,y\n0,0\n3,70\n")?;
/// let recipe = zvf_jobs::create::Recipe::default();
/// let go = &mut |_, _| std::ops::ControlFlow::Continue(());
/// let layout = zvf_jobs::create::StoreLayout::scan(&file, &recipe, go)?;
/// assert_eq!((layout.chunk.as_slice(), layout.chunks), (&[5.0, 100.0][..], Some(1)));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreLayout {
    /// The contents of the file.
    pub header: Header,
    /// Number of vertices.
    pub vertices: u64,
    /// Number of edges or faces.
    pub elements: u64,
    /// The bounding box of the vertices; `None` without vertices.
    pub bounds: Option<[Vec<f64>; 2]>,
    /// The shape of a chunk.
    pub chunk: Vec<f64>,
    /// Number of chunks in the box, empty ones included; `None` if it overflows 64 bits.
    pub chunks: Option<u64>,
    /// Cells per object on each axis, if they are sharded.
    pub shard: Option<Vec<u64>>,
    /// Maximum bytes of the cells of one shard while they are written; the writer uses smaller
    /// shards where vertices are dense.
    pub(crate) shard_bytes: Option<u64>,
    /// The slices in which the input is read, if it does not fit in memory.
    pub slices: Vec<SlicePlan>,
    /// For each file, the number of vertices in earlier files.
    pub(crate) before: Vec<u64>,
    /// For each file, the shift of its object ids.
    pub(crate) shifts: Vec<Shift>,
    /// The first free id.
    pub(super) next: i64,
    /// Total bytes read.
    pub(super) bytes: u64,
    /// The type in which positions of text files are read: the requested one, or the wider one if
    /// files differ.
    pub(crate) dtype: Option<Dtype>,
    /// The format headers, the first of each.
    pub(crate) records: Vec<(String, Json)>,
    /// The content of all files, if it fits in the writer's memory: then they are not read again.
    pub(super) cached: Option<Arc<[CachedFile]>>,
}

/// The content of one file, with its stamp.
#[derive(Clone, Debug)]
pub(super) struct CachedFile {
    stamp: Option<Stamp>,
    header: Header,
    pieces: Vec<Piece>,
}

/// Length and modification time of a file.
type Stamp = (u64, SystemTime);

fn read_stamp(file: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    Some((about.len(), about.modified().ok()?))
}

impl StoreLayout {
    /// Scans the whole of `file`.
    ///
    /// # Errors
    ///
    /// When it cannot be read, a coordinate is not finite, or the recipe does not fit its axes.
    pub fn scan(file: &Path, recipe: &Recipe, progress: &mut OnStage<'_>) -> Result<Self, Error> {
        Self::scan_all(&[file.to_owned()], recipe, progress)
    }

    /// Scans several files with the same columns, for one store.
    ///
    /// # Errors
    ///
    /// As [`scan`](Self::scan), when there is no file, and when one of them has other columns.
    pub fn scan_all(
        files: &[PathBuf],
        recipe: &Recipe,
        progress: &mut OnStage<'_>,
    ) -> Result<Self, Error> {
        Self::starting_at_id(files, None, recipe, 0, progress)
    }

    /// Scans files like [`scan_all`](Self::scan_all). Ids below `next` belong to files of other
    /// kinds, and the first of these files may be `begun`: its header was already read.
    pub(super) fn starting_at_id(
        files: &[PathBuf],
        begun: Option<FileReader>,
        recipe: &Recipe,
        next: i64,
        progress: &mut OnStage<'_>,
    ) -> Result<Self, Error> {
        let Some((first, other_files)) = files.split_first() else {
            return Err(bad_request_error("the input", "at least one file", "none"));
        };
        let in_file = |file: &Path, error| name_file(error, file, !other_files.is_empty());
        let reader = match begun {
            Some(reader) => reader,
            None => open(first, recipe).map_err(|error| in_file(first, error))?,
        };
        let mut header = reader.header().clone();
        let like = header.clone();
        check_shapes(recipe, header.axes.len())?;
        let readers = other_files.iter().map(|file| {
            let reader = open(file, recipe).map_err(|error| in_file(file, error))?;
            match difference(&like, reader.header()) {
                None => Ok(reader),
                Some(_) if is_one_wider(&like, reader.header(), recipe) => Ok(reader),
                Some([expected, found]) => {
                    let found = format!("{found} in {}", file.display());
                    Err(other_columns_error(
                        &format!("{expected} as in {}", first.display()),
                        &found,
                    ))
                }
            }
        });
        let mut slicer = Slicer::new(recipe.write.memory);
        let mut before = Vec::with_capacity(files.len());
        let mut shifts = Vec::with_capacity(files.len());
        let mut numbering = Numbering::new(next, recipe.keep_ids);
        let is_one_object = matches!(header.kind, Kind::Graph | Kind::Mesh);
        let is_one_object = is_one_object && !header.objects;
        let (mut vertices, mut elements) = (0_u64, 0_u64);
        let mut records: Vec<(String, Json)> = Vec::new();
        let mut extent = Extent::new(header.axes.len());
        let mut cached = Some(Vec::with_capacity(files.len()));
        let readers = std::iter::once(Ok(reader)).chain(readers);
        for (input, (file, reader)) in files.iter().zip(readers).enumerate() {
            let file_start = vertices;
            before.push(file_start);
            let mut reader = reader?;
            if is_one_wider(&like, reader.header(), recipe) {
                let mut recipe = recipe.clone();
                recipe.read.positions = Some(Dtype::FLOAT64);
                return Self::starting_at_id(files, None, &recipe, next, progress);
            }
            header.groups |= reader.header().groups;
            for (format, record) in &reader.header().records {
                match records.iter().find(|(existing, _)| existing == format) {
                    None => records.push((format.clone(), record.clone())),
                    Some((_, first)) if first != record => header.left_out.push(format!(
                        "the header of {}: the first one of {format} is kept",
                        file.display()
                    )),
                    Some(_) => {}
                }
            }
            for left_out in &reader.header().left_out {
                if !header.left_out.contains(left_out) {
                    header.left_out.push(left_out.clone());
                }
            }
            if let Some(cached) = &mut cached {
                let (header, pieces) = (reader.header().clone(), Vec::new());
                cached.push(CachedFile { stamp: read_stamp(file), header, pieces });
            }
            for (number, piece) in reader.by_ref().enumerate() {
                let piece = piece.map_err(|error| in_file(file, error))?;
                slicer.add(input, number, &piece);
                numbering.add(&piece);
                if slicer.is_cut() {
                    cached = None;
                }
                match &piece {
                    Piece::Vertices(batch) => {
                        if let Some((row, x)) = extent.add(batch.positions()) {
                            let row = vertices - file_start + to_u64(row);
                            return Err(in_file(file, not_finite_error(row, &x.to_string())));
                        }
                        vertices += to_u64(batch.len());
                        let batch_elements = batch.elements().map_or(0, zvf_model::Elements::len);
                        elements += to_u64(batch_elements);
                    }
                    Piece::Elements { rows, .. } => elements += to_u64(rows.len()),
                    Piece::Objects { .. } | Piece::Groups { .. } => {}
                }
                if let Some(cached_input) = cached.as_mut().and_then(|cached| cached.last_mut()) {
                    cached_input.pieces.push(piece);
                }
                report_progress(progress, CreateStage::Look, vertices)?;
            }
            for note in reader.notes() {
                if !header.notes.contains(&note) {
                    header.notes.push(note);
                }
            }
            shifts.push(numbering.end(is_one_object).map_err(|error| in_file(file, error))?);
        }
        let bounds = extent.corners();
        let (bytes, slices, next) = (slicer.total(), slicer.finish(), numbering.next());
        let (chunk, chunks, shard, shard_bytes) = (Vec::new(), None, None, None);
        let mut layout = Self {
            header,
            vertices,
            elements,
            bounds,
            chunk,
            chunks,
            shard,
            shard_bytes,
            slices,
            before,
            shifts,
            next,
            bytes,
            dtype: recipe.read.positions,
            records,
            cached: cached.map(Into::into),
        };
        layout.choose_chunks(layout.bounds.clone().as_ref(), (vertices, bytes), recipe);
        Ok(layout)
    }

    /// Returns a reader of `file`, number `input` of the scanned files: of the cached content if
    /// the file is unchanged, otherwise from the start of the file.
    pub(super) fn reader(
        &self,
        input: usize,
        file: &Path,
        recipe: &Recipe,
    ) -> Result<FileReader, Error> {
        let cached = self.cached.as_ref().and_then(|cached| cached.get(input));
        // The answer of a store belongs to a snapshot.
        let is_answer = recipe.sources.iter().any(|source| source.name == file);
        let is_same =
            |stamp: Option<Stamp>| is_answer || (stamp.is_some() && stamp == read_stamp(file));
        match cached.filter(|cached| is_same(cached.stamp)) {
            Some(CachedFile { header, pieces, .. }) => {
                Ok(FileReader::from_pieces(header.clone(), pieces.clone()))
            }
            None if recipe.read.positions == self.dtype => open(file, recipe),
            None => {
                let mut recipe = recipe.clone();
                recipe.read.positions = self.dtype;
                open(file, &recipe)
            }
        }
    }

    /// Chooses chunks and shards for this many vertices and bytes within these bounds: its own, or
    /// those of all kinds. The wider the rows, the fewer are in a chunk, which is put together in
    /// memory.
    pub(super) fn choose_chunks(
        &mut self,
        bounds: Option<&[Vec<f64>; 2]>,
        (vertices, bytes): (u64, u64),
        recipe: &Recipe,
    ) {
        let sizes: Vec<f64> = match bounds {
            Some([low, high]) => low.iter().zip(high).map(|(low, high)| high - low).collect(),
            None => vec![0.0; self.header.axes.len()],
        };
        self.chunk = match &recipe.chunk {
            Some(lengths) => expand_to_axes(lengths, sizes.len()),
            None => {
                let row_bytes = bytes.checked_div(vertices).unwrap_or(0).max(1);
                let most = (recipe.write.memory.max(LEAST_MEMORY) / 8 / row_bytes).max(1);
                chunk(&sizes, vertices, recipe.per_chunk.min(most))
            }
        };
        let counts = counts(bounds, &self.chunk);
        self.chunks = product(&counts);
        if let Some(cells) = recipe.shard_shape.as_ref().filter(|_| recipe.shard) {
            self.shard = Some(expand_to_axes(cells, counts.len()));
            return;
        }
        let is_many = self.chunks.is_none_or(|chunks| chunks >= MANY);
        let many = recipe.shard && !recipe.write.compat && is_many;
        self.shard = many.then(|| shard(&counts)).and_then(|shard| {
            // If there are too many chunks to count, the average chunk is empty.
            let cell = self.chunks.and_then(|chunks| bytes.checked_div(chunks)).unwrap_or(0);
            fit_shard(shard, cell, recipe.write.memory / 8)
        });
        self.shard_bytes = self.shard.is_some().then_some(recipe.write.memory / 8);
    }
}

/// The memory that a chunk may always have eight times over, in bytes.
const LEAST_MEMORY: u64 = 16 << 20;

/// Expands a single number to all axes; keeps one number per axis.
pub(super) fn expand_to_axes<T: Copy>(numbers: &[T], axes: usize) -> Vec<T> {
    if let [number] = numbers { vec![*number; axes] } else { numbers.to_vec() }
}

/// Refuses chunks, bins and shards whose rank does not match the axes.
fn check_shapes(recipe: &Recipe, axes: usize) -> Result<(), Error> {
    for (what, lengths) in
        [("the shape of a chunk", &recipe.chunk), ("the shape of a bin", &recipe.bins)]
    {
        if let Some(lengths) = lengths.as_ref().filter(|found| ![1, axes].contains(&found.len())) {
            let found = format!("{} numbers for {axes} axes", lengths.len());
            return Err(bad_request_error(what, "one length, or one for each axis", &found));
        }
    }
    check_shard(recipe, axes)
}

/// Refuses a shard whose rank does not match the axes.
fn check_shard(recipe: &Recipe, axes: usize) -> Result<(), Error> {
    let Some(cells) = &recipe.shard_shape else { return Ok(()) };
    let what = "chunks of a shard";
    if recipe.write.compat {
        return Err(bad_request_error(what, "none, which zarr-vectors requires", "some"));
    }
    if cells.len() != 1 && cells.len() != axes {
        let found = format!("{} numbers for {axes} axes", cells.len());
        return Err(bad_request_error(what, "one number, or one for each axis", &found));
    }
    zvf_store::count_shard_cells(&expand_to_axes(cells, axes))?;
    Ok(())
}

impl fmt::Display for StoreLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { kind, axes, positions, fields, object_fields, .. } = &self.header;
        let unit = self.header.unit().map(|unit| format!(" in {unit}")).unwrap_or_default();
        writeln!(f, "kind        {kind}")?;
        writeln!(f, "axes        {}{unit}, {}", axes.join(", "), positions.dtype())?;
        writeln!(f, "vertices    {}", self.vertices)?;
        if self.header.elements.is_some() {
            writeln!(f, "elements    {}", self.elements)?;
        }
        if let Some([low, high]) = &self.bounds {
            writeln!(f, "bounds      {low:?} to {high:?}")?;
        }
        for (scope, fields) in [("vertex", fields), ("object", object_fields)] {
            for field in fields {
                let (dtype, width) = (field.column.dtype(), field.column.width());
                let width = if width > 1 { format!(" x {width}") } else { String::new() };
                writeln!(f, "attribute   {scope} {}, {dtype}{width}", field.name)?;
            }
        }
        let named = self.header.objects || matches!(self.header.kind, Kind::Graph | Kind::Mesh);
        if named && self.shifts.iter().any(|shift| shift.first_id() != 0) {
            let firsts: Vec<String> =
                self.shifts.iter().map(|s| s.first_id().to_string()).collect();
            writeln!(f, "objects     first object id of each file: {}", firsts.join(", "))?;
        }
        match self.chunks {
            Some(chunks) => {
                let mean_vertices = self.vertices.checked_div(chunks).unwrap_or(0);
                let mean = format_count(mean_vertices, "vertex");
                let chunks = group_digits(chunks);
                writeln!(f, "chunks      {:?}, {chunks} in the bounds", self.chunk)?;
                writeln!(f, "            on average {mean} in each")?;
            }
            None => writeln!(f, "chunks      {:?}, more than 10^19 in the bounds", self.chunk)?,
        }
        match &self.shard {
            Some(shard) => write!(f, "shards      {shard:?} chunks per object")?,
            None => write!(f, "shards      none: one object per chunk and array")?,
        }
        for left_out in &self.header.left_out {
            write!(f, "\nnot read    {left_out}")?;
        }
        for note in &self.header.notes {
            write!(f, "\nnote        {note}")?;
        }
        Ok(())
    }
}

/// Returns the difference between the columns of two files, for each file: the kind, the positions,
/// or the first differing column.
fn difference(first: &Header, second: &Header) -> Option<[String; 2]> {
    let (first, second) = (describe_parts(first), describe_parts(second));
    let at = (0..first.len().max(second.len())).find(|at| first.get(*at) != second.get(*at))?;
    let count = |parts: &[String]| format!("{} columns", parts.len() - PARTS_BEFORE_COLUMNS);
    Some([first, second].map(|parts| parts.get(at).cloned().unwrap_or_else(|| count(&parts))))
}

/// Returns words for all that is equal in files of one input: [`PARTS_BEFORE_COLUMNS`], then a word
/// for each column.
fn describe_parts(header: &Header) -> Vec<String> {
    let (dtype, width) = (header.positions.dtype(), header.positions.width());
    let no = |is_there: bool| if is_there { "" } else { "no " };
    let mut parts = vec![
        header.kind.to_string(),
        format!("positions of {width} {dtype}"),
        format!("{}objects", no(header.objects)),
        format!("{}edges or faces", no(header.elements.is_some())),
    ];
    let fields = header.fields.iter().map(|field| ("column", field));
    let fields = fields.chain(header.object_fields.iter().map(|f| ("column of objects", f)));
    parts.extend(fields.map(|(what, field)| {
        let (dtype, width) = (field.column.dtype(), field.column.width());
        let width = if width > 1 { format!(" x {width}") } else { String::new() };
        // Text of any width fits in one column.
        let is_text = dtype.kind == DtypeKind::Text;
        let dtype = if is_text { "text".to_owned() } else { dtype.to_string() };
        format!("{what} {:?} of {dtype}{width}", &*field.name)
    }));
    parts
}

/// Returns whether the files differ in the size of floats and no type is requested: text is read in
/// the type that it needs.
fn is_one_wider(first: &Header, second: &Header, recipe: &Recipe) -> bool {
    let differ = |(first, second): (&Column, &Column)| {
        let is_float = |column: &Column| [Dtype::FLOAT32, Dtype::FLOAT64].contains(&column.dtype());
        first.dtype() != second.dtype() && is_float(first) && is_float(second)
    };
    let columns = |header: &Header| {
        let fields = header.fields.iter().map(|field| field.column.clone());
        std::iter::once(header.positions.clone()).chain(fields).collect::<Vec<_>>()
    };
    recipe.read.positions.is_none() && columns(first).iter().zip(&columns(second)).any(differ)
}

/// Number of chunks from which sharding is worthwhile.
const MANY: u64 = 64;
/// The kind, the positions, objects, and elements.
const PARTS_BEFORE_COLUMNS: usize = 4;
