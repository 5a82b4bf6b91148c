//! Writer of LAS and LAZ, versions 1.2 to 1.4, and of COPC.
//!
//! Attributes with laspy's names of the standard fields are written to these fields, all others to
//! extra bytes. If the input is a LAS file, its version, format, scale, offset and records are
//! reused. Otherwise the scale is the power of ten that keeps coordinates exact, or the finest that
//! covers the extent. To choose it, the first points are buffered, as many as memory allows; later
//! points out of range are refused.
//!
//! The header has counts, so it is written last. A target that cannot seek is buffered in memory.
//!
//! COPC has its points in the nodes of an octree, and its writer keeps all of them in memory.

mod chunks;
mod encode;
mod head;
mod octree;
mod schema;

use std::io::{Cursor, Seek as _, SeekFrom, Write};

use serde_json::{Map, Value as Json};
use zvf_error::{Result, format_count};
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_formats::{
    Opened, RecordNumbers, SeekWrite, Target, WriteOptions, cannot_hold, count_u32, find_record,
    json_items,
};
use zvf_model::Batch;
use zvf_model::flow::{Header, Loss, Piece, Report, Sink};

use crate::las::Grid;
use crate::las::read::record::decode_hex;
use crate::las::write::chunks::Chunks;
use crate::las::write::encode::{Summary, encode};
use crate::las::write::head::{Head, OutRecord, header_bytes};
use crate::las::write::schema::{Schema, SchemaRequest, parse_u8, refuse};

/// The variant of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Plain,
    Compressed,
    Octree,
}

pub(crate) fn open<'a>(target: Target<'a>, options: &WriteOptions, variant: Variant) -> Opened<'a> {
    let mut target = target.into_file("LAS")?;
    let base = if target.can_seek() { target.stream_position()? } else { 0 };
    let buffer = (!target.can_seek()).then(|| Cursor::new(Vec::new()));
    let options = options.clone();
    Ok(Box::new(LasWriter { target, buffer, base, options, variant, state: None }))
}

/// A writer of one file.
struct LasWriter<'a> {
    target: Target<'a>,
    buffer: Option<Cursor<Vec<u8>>>, // used instead of a target that cannot seek
    base: u64,                       // where the file begins in the target
    options: WriteOptions,
    variant: Variant,
    state: Option<State>,
}

/// The state of a writer once it has the header of the input.
struct State {
    schema: Schema,
    grid: Option<Grid>,
    pending_batches: Vec<Batch>, // until the grid is known
    pending_bytes: u64,
    summary: Summary,
    encoding: u16,
    vlrs: Vec<OutRecord>,
    evlrs: Vec<OutRecord>,
    chunks: Option<Chunks>,
    points_at: u32,
    losses: Vec<Loss>,
    /// All point records, for the octree.
    tree: Option<Vec<u8>>,
    octree: Option<(octree::Cube, u64, (f64, f64))>,
}

impl LasWriter<'_> {
    fn output(&mut self) -> &mut dyn SeekWrite {
        match &mut self.buffer {
            Some(buffer) => buffer,
            None => &mut self.target,
        }
    }

    /// Writes bytes, and refuses them where the buffer exceeds the memory limit.
    fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(buffer) = &self.buffer {
            let size = to_u64(buffer.get_ref().len());
            if size > self.options.memory {
                return Err(cannot_hold(
                    "LAS",
                    format!("more than {} bytes in a stream", self.options.memory),
                    "write a file: the header counts the points",
                ));
            }
        }
        Ok(self.output().write_all(bytes)?)
    }

    /// Replaces what was written at a byte of the file.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let at = self.origin() + at;
        self.output().seek(SeekFrom::Start(at))?;
        self.output().write_all(bytes)?;
        self.output().seek(SeekFrom::End(0))?;
        Ok(())
    }

    /// Reserves the header, and writes the records before the points.
    fn write_start(&mut self, state: &mut State) -> Result<()> {
        let records = state.vlrs.iter().map(OutRecord::vlr).collect::<Result<Vec<_>, _>>()?;
        let records = records.concat();
        let header = usize::from(header_bytes(state.schema.minor));
        state.points_at = count_u32(header + records.len(), "LAS", "bytes before the points")?;
        self.write_bytes(&vec![0; header])?;
        self.write_bytes(&records)?;
        if state.chunks.is_some() {
            self.write_bytes(&(-1_i64).to_le_bytes())?;
        }
        Ok(())
    }

    /// Chooses the grid if there is none, and writes the pending batches.
    fn write_pending(&mut self, state: &mut State) -> Result<()> {
        if state.grid.is_none() {
            let batches = &state.pending_batches;
            let axes = batches.first().map_or(3, |batch| batch.positions().width());
            let grid = Grid::fit(batches, usize_from_u32(axes));
            let no_grid = || refuse("coordinates that are NaN or infinite".to_owned());
            state.grid = Some(grid.ok_or_else(no_grid)?);
            self.write_start(state)?;
        }
        for batch in std::mem::take(&mut state.pending_batches) {
            self.write_batch(state, &batch)?;
        }
        Ok(())
    }

    fn write_batch(&mut self, state: &mut State, batch: &Batch) -> Result<()> {
        let Some(grid) = state.grid else { return Ok(()) };
        let records = encode(&state.schema, &grid, batch, &mut state.summary)?;
        if let Some(tree) = &mut state.tree {
            tree.extend_from_slice(&records);
            if to_u64(tree.len()) > self.options.memory {
                return Err(cannot_hold(
                    "COPC",
                    format!(
                        "more than {} bytes of points, all of which it sorts",
                        self.options.memory
                    ),
                    "raise --memory-limit, or write LAZ",
                ));
            }
            return Ok(());
        }
        match &mut state.chunks {
            Some(chunks) => {
                let full = chunks.push(&records)?;
                self.write_bytes(&full)
            }
            None => self.write_bytes(&records),
        }
    }

    fn end(&mut self, state: &mut State) -> Result<()> {
        self.write_pending(state)?;
        self.write_octree(state)?;
        if let Some(chunks) = &mut state.chunks {
            let (last, table) = chunks.finish()?;
            self.write_bytes(&last)?;
            let table_at = self.output().stream_position()? - self.origin();
            self.write_bytes(&table)?;
            self.write_at(u64::from(state.points_at), &table_at.to_le_bytes())?;
        }
        let mut evlrs = (0, 0);
        if !state.evlrs.is_empty() {
            evlrs.0 = self.output().stream_position()? - self.origin();
            evlrs.1 = count_u32(state.evlrs.len(), "LAS", "records behind the points")?;
            for record in &state.evlrs {
                self.write_bytes(&record.evlr())?;
            }
        }
        if let Some((cube, len, times)) = state.octree {
            let info = octree::encode_info(cube, (evlrs.0 + 60, len), times);
            self.write_at(429, &info)?; // after the header of the file and that of the first VLR
        }
        let Some(grid) = &state.grid else { return Ok(()) };
        let head = Head {
            schema: &state.schema,
            grid,
            summary: &state.summary,
            encoding: state.encoding,
            compressed: self.variant != Variant::Plain,
            vlrs: count_u32(state.vlrs.len(), "LAS", "records")?,
            points_at: state.points_at,
            evlrs,
        };
        self.write_at(0, &head.bytes())?;
        if let Some(buffer) = self.buffer.take() {
            self.target.write_all(buffer.get_ref())?;
        }
        Ok(self.target.flush()?)
    }

    /// Writes each node of the octree as a chunk, and adds the record of the hierarchy.
    fn write_octree(&mut self, state: &mut State) -> Result<()> {
        let (Some(tree), Some(grid)) = (state.tree.take(), state.grid) else { return Ok(()) };
        let size = usize::from(state.schema.record_bytes);
        let cube = octree::Cube::from_bounds(state.summary.min, state.summary.max);
        let mut page = Vec::new();
        let record = |row: usize| &tree[row * size..(row + 1) * size];
        for node in octree::build_nodes(&tree, size, &grid, cube) {
            let points: Vec<u8> = node.rows.iter().flat_map(|row| record(*row)).copied().collect();
            let Some(chunks) = &mut state.chunks else { return Ok(()) };
            let bytes = chunks.compress(&points)?;
            let at = self.output().stream_position()? - self.origin();
            self.write_bytes(&bytes)?;
            page.extend(octree::encode_entry(node.key, at, bytes.len(), node.rows.len())?);
        }
        let times = tree.chunks_exact(size).map(|record| RecordNumbers::new(record).f64(22));
        let times = times.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), time| {
            (min.min(time), max.max(time))
        });
        let times = if times.0 > times.1 { (0.0, 0.0) } else { times };
        let len = to_u64(page.len());
        state.evlrs.insert(0, OutRecord::new("copc", 1000, "EPT hierarchy", page));
        state.octree = Some((cube, len, times));
        Ok(())
    }

    const fn origin(&self) -> u64 {
        if self.buffer.is_some() { 0 } else { self.base }
    }
}

impl Sink for LasWriter<'_> {
    fn begin(&mut self, header: &Header) -> Result<()> {
        let mut state = State::new(header, &self.options, self.variant)?;
        if state.grid.is_some() {
            self.write_start(&mut state)?;
        }
        self.state = Some(state);
        Ok(())
    }

    fn write(&mut self, piece: Piece) -> Result<()> {
        let Piece::Vertices(batch) = piece else { return Ok(()) };
        let Some(mut state) = self.state.take() else { return Ok(()) };
        if state.grid.is_some() {
            self.write_batch(&mut state, &batch)?;
        } else {
            let bytes = batch.fields().iter().map(|field| field.column.bytes().len());
            let bytes = batch.positions().bytes().len() + bytes.sum::<usize>();
            state.pending_bytes += to_u64(bytes);
            state.pending_batches.push(batch);
            if state.pending_bytes > self.options.memory / 2 {
                self.write_pending(&mut state)?;
            }
        }
        self.state = Some(state);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Report> {
        let Some(mut state) = self.state.take() else {
            return Err(refuse("a file of nothing".to_owned()));
        };
        self.end(&mut state)?;
        if state.summary.moved_coordinates > 0 {
            state.losses.push(Loss::new(format!(
                "{} moved by up to {:e}: LAS stores whole numbers times {:?}",
                format_count(state.summary.moved_coordinates, "coordinate"),
                state.summary.max_shift,
                state.grid.map_or([0.0; 3], |grid| grid.scales)
            )));
        }
        Ok(Report { vertices: state.summary.count, losses: state.losses, ..Report::default() })
    }
}

impl State {
    fn new(header: &Header, options: &WriteOptions, variant: Variant) -> Result<Self> {
        let record = find_record(header, "las");
        let extra = &options.extra;
        let requested_minor = read_option(extra, "las.version", parse_minor)?;
        let request = SchemaRequest {
            point_format: read_option(extra, "las.point_format", parse_u8)?
                .or_else(|| parse_u8(&record["point_format"])),
            minor: requested_minor.or_else(|| parse_minor(&record["version"])),
            compressed: variant != Variant::Plain,
            octree: variant == Variant::Octree,
        };
        let schema = Schema::new(header, request)?;
        let chunks = (variant != Variant::Plain)
            .then(|| Chunks::new(&schema, variant == Variant::Octree))
            .transpose()?;
        let (mut vlrs, mut evlrs, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(minor) = requested_minor.filter(|minor| *minor < schema.minor) {
            losses.push(Loss::new(format!(
                "version 1.{minor} becomes 1.{}: point format {} needs it",
                schema.minor, schema.point_format
            )));
        }
        if schema.truncated_texts > 0 {
            losses.push(Loss::new(format!(
                "{} names and descriptions of attributes are cut: LAS has 32 bytes for each",
                schema.truncated_texts
            )));
        }
        if variant == Variant::Octree {
            vlrs.push(OutRecord::new("copc", 1, "COPC info", vec![0; 160])); // filled in at the end
        }
        for json in json_items(&record["vlrs"]) {
            let (out, is_evlr) = parse_record(json)?;
            if is_evlr && schema.minor == 4 {
                evlrs.push(out);
            } else if out.data.len() > usize::from(u16::MAX) {
                losses.push(Loss::new(format!(
                    "record {:?} {} of {} bytes is dropped: version 1.{} holds up to {} for each",
                    out.user,
                    out.id,
                    out.data.len(),
                    schema.minor,
                    u16::MAX
                )));
            } else {
                vlrs.push(out);
            }
        }
        let mut encoding = record["global_encoding"]
            .as_u64()
            .and_then(|bits| u16::try_from(bits).ok())
            .unwrap_or(u16::from(schema.point_format > 5) << 4);
        let has_crs = vlrs.iter().chain(&evlrs).any(|record| record.user == "LASF_Projection");
        if let Some(crs) = header.crs.as_ref().filter(|_| !has_crs) {
            match crs
                .as_str()
                .filter(|text| text.contains('[') && text.len() < usize::from(u16::MAX))
            {
                Some(wkt) => {
                    let data = [wkt.as_bytes(), &[0]].concat();
                    vlrs.push(OutRecord::new("LASF_Projection", 2112, "WKT", data));
                    encoding |= 16;
                }
                None => losses.push(Loss::new("the CRS is not stated: LAS has it as WKT")),
            }
        }
        if !schema.extra.is_empty() {
            vlrs.push(OutRecord::new("LASF_Spec", 4, "Extra Bytes Record", schema.extra.clone()));
        }
        if let Some(chunks) = &chunks {
            vlrs.push(OutRecord::new(
                "laszip encoded",
                22204,
                "https://laszip.org",
                chunks.record()?,
            ));
        }
        Ok(Self {
            grid: find_grid(read_option(extra, "las.scale", parse_scales)?, record),
            schema,
            pending_batches: Vec::new(),
            pending_bytes: 0,
            summary: Summary::new(),
            encoding,
            vlrs,
            evlrs,
            chunks,
            points_at: 0,
            losses,
            tree: (variant == Variant::Octree).then(Vec::new),
            octree: None,
        })
    }
}

/// Parses a record of the header of the input, and returns whether it is an EVLR.
fn parse_record(json: &Json) -> Result<(OutRecord, bool)> {
    let text = |name: &str| json[name].as_str().unwrap_or_default();
    let id = json["record_id"].as_u64().and_then(|id| u16::try_from(id).ok());
    let id = id.ok_or_else(|| refuse("a record without an id of 16 bits".to_owned()))?;
    let is_evlr = json["extended"] == true;
    let data = json["hex"].as_str().and_then(decode_hex);
    let data = data.ok_or_else(|| refuse("a record without its bytes as hex".to_owned()))?;
    let is_evlr = is_evlr || data.len() > usize::from(u16::MAX);
    Ok((OutRecord::new(text("user_id"), id, text("description"), data), is_evlr))
}

/// Returns the value of an option, or `None` if it is not set.
fn read_option<T>(
    extra: &Map<String, Json>,
    name: &str,
    parse: impl FnOnce(&Json) -> Option<T>,
) -> Result<Option<T>> {
    let Some(value) = extra.get(name) else { return Ok(None) };
    parse(value).map(Some).ok_or_else(|| {
        let advice = "give a version from 1.2 to 1.4, a format from 0 to 10, a scale above 0";
        cannot_hold("LAS", format!("{name} of {value}"), advice)
    })
}

/// Returns the minor version of a text such as `1.2`.
fn parse_minor(version: &Json) -> Option<u8> {
    let number = || version.is_number().then(|| version.to_string()); // a program may give 1.4 as one
    let text = version.as_str().map(str::to_owned).or_else(number)?;
    let minor = text.strip_prefix("1.")?.parse::<u8>().ok()?;
    (minor <= 4).then_some(minor)
}

/// Returns the scales of the axes: one number for all, or one of each.
fn parse_scales(scale: &Json) -> Option<[f64; 3]> {
    let scales = scale.as_f64().map(|scale| [scale; 3]).or_else(|| parse_triple(scale))?;
    scales.iter().all(|scale| scale.is_finite() && *scale > 0.0).then_some(scales)
}

fn parse_triple(value: &Json) -> Option<[f64; 3]> {
    let values: Option<Vec<f64>> = value.as_array()?.iter().map(Json::as_f64).collect();
    <[f64; 3]>::try_from(values?).ok()
}

/// Returns the grid of the given scales, or else that of the header record of the input.
fn find_grid(scales: Option<[f64; 3]>, record: &Json) -> Option<Grid> {
    let offsets = parse_triple(&record["offsets"]).unwrap_or([0.0; 3]);
    let scales = scales.or_else(|| parse_scales(&record["scales"]))?;
    Some(Grid { scales, offsets })
}

#[cfg(test)]
mod tests;
