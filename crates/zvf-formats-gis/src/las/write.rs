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
    NewFile, OpenedWriter, PieceWriter, RecordNumbers, SeekWrite, Target, cannot_hold, count_u32,
    find_record, json_items,
};
use zvf_model::Batch;
use zvf_model::flow::{FlowReport, Loss, Piece};

use crate::las::Grid;
use crate::las::read::header::EVLR_BYTES;
use crate::las::read::record::decode_hex;
use crate::las::write::chunks::Chunks;
use crate::las::write::encode::{Summary, encode};
use crate::las::write::head::{OutRecord, header_bytes};
use crate::las::write::octree::Cube;
use crate::las::write::schema::{Schema, SchemaRequest, parse_u8, refuse};

/// The variant of the format.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Variant {
    Plain,
    Compressed,
    Octree,
}

pub(crate) fn open<'a>(file: NewFile<'a, '_>, variant: Variant) -> OpenedWriter<'a> {
    let (header, options) = (file.header, file.options);
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
    let mut losses = Vec::new();
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
    let mut writer = LasWriter {
        out: Out::new(file.target, options.memory)?,
        memory: options.memory,
        grid: find_grid(read_option(extra, "las.scale", parse_scales)?, record),
        schema,
        pending_batches: Vec::new(),
        pending_bytes: 0,
        summary: Summary::new(),
        encoding: 0,
        vlrs: Vec::new(),
        evlrs: Vec::new(),
        chunks,
        points_at: 0,
        losses,
        tree: (variant == Variant::Octree).then(Vec::new),
    };
    writer.add_records(header.crs.as_ref(), record)?;
    if writer.grid.is_some() {
        writer.write_start()?;
    }
    Ok(Box::new(writer))
}

/// The bytes of the file: those of the target, or held for one that cannot seek.
struct Out<'a> {
    target: Target<'a>,
    held: Option<Cursor<Vec<u8>>>,
    start: u64, // of the file in the target
    memory: u64,
}

impl<'a> Out<'a> {
    fn new(mut target: Target<'a>, memory: u64) -> Result<Self> {
        let held = (!target.can_seek()).then(|| Cursor::new(Vec::new()));
        let start = if target.can_seek() { target.stream_position()? } else { 0 };
        Ok(Self { target, held, start, memory })
    }

    fn file(&mut self) -> &mut dyn SeekWrite {
        match &mut self.held {
            Some(held) => held,
            None => &mut self.target,
        }
    }

    /// Writes bytes, and refuses them where those that are held exceed the memory limit.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.held.as_ref().is_some_and(|held| to_u64(held.get_ref().len()) > self.memory) {
            let what = format!("more than {} bytes in a stream", self.memory);
            return Err(cannot_hold("LAS", what, "write a file: the header counts the points"));
        }
        Ok(self.file().write_all(bytes)?)
    }

    /// Returns the number of bytes written.
    fn position(&mut self) -> Result<u64> {
        let start = self.start;
        Ok(self.file().stream_position()? - start)
    }

    /// Replaces what was written at a byte of the file.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let at = self.start + at;
        self.file().seek(SeekFrom::Start(at))?;
        self.file().write_all(bytes)?;
        self.file().seek(SeekFrom::End(0))?;
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if let Some(held) = self.held.take() {
            self.target.write_all(held.get_ref())?;
        }
        Ok(self.target.flush()?)
    }
}

/// The cube of an octree, the bytes of its hierarchy, and the first and the last time.
type OctreeInfo = (Cube, u64, (f64, f64));

/// A writer of one file.
struct LasWriter<'a> {
    out: Out<'a>,
    memory: u64,
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
    tree: Option<Vec<u8>>, // all point records, for the octree
}

impl LasWriter<'_> {
    /// Adds the records of the input, and those that describe its CRS and its points.
    fn add_records(&mut self, crs: Option<&Json>, record: &Json) -> Result<()> {
        let Self { schema, vlrs, evlrs, losses, .. } = self;
        if self.tree.is_some() {
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
        let bits = record["global_encoding"].as_u64().and_then(|bits| u16::try_from(bits).ok());
        self.encoding = bits.unwrap_or(u16::from(schema.point_format > 5) << 4);
        let has_crs = vlrs.iter().chain(&*evlrs).any(|record| record.user == "LASF_Projection");
        if let Some(crs) = crs.filter(|_| !has_crs) {
            let is_wkt = |text: &&str| text.contains('[') && text.len() < usize::from(u16::MAX);
            match crs.as_str().filter(is_wkt) {
                Some(wkt) => {
                    let data = [wkt.as_bytes(), &[0]].concat();
                    vlrs.push(OutRecord::new("LASF_Projection", 2112, "WKT", data));
                    self.encoding |= 16;
                }
                None => losses.push(Loss::new("the CRS is not stated: LAS has it as WKT")),
            }
        }
        if !schema.extra.is_empty() {
            vlrs.push(OutRecord::new("LASF_Spec", 4, "Extra Bytes Record", schema.extra.clone()));
        }
        if let Some(chunks) = &self.chunks {
            let data = chunks.record()?;
            vlrs.push(OutRecord::new("laszip encoded", 22204, "https://laszip.org", data));
        }
        Ok(())
    }

    /// Reserves the header, and writes the records before the points.
    fn write_start(&mut self) -> Result<()> {
        let records = self.vlrs.iter().map(OutRecord::vlr).collect::<Result<Vec<_>, _>>()?;
        let records = records.concat();
        let header = usize::from(header_bytes(self.schema.minor));
        self.points_at = count_u32(header + records.len(), "LAS", "bytes before the points")?;
        self.out.write(&vec![0; header])?;
        self.out.write(&records)?;
        if self.chunks.is_some() {
            self.out.write(&(-1_i64).to_le_bytes())?;
        }
        Ok(())
    }

    /// Returns the grid. Where there is none, it is chosen for the pending batches, which are then written.
    fn fix_grid(&mut self) -> Result<Grid> {
        if let Some(grid) = self.grid {
            return Ok(grid);
        }
        let batches = std::mem::take(&mut self.pending_batches);
        let axes = batches.first().map_or(3, |batch| batch.positions().width());
        let grid = Grid::fit(&batches, usize_from_u32(axes));
        let grid = grid.ok_or_else(|| refuse("coordinates that are NaN or infinite".to_owned()))?;
        self.grid = Some(grid);
        self.write_start()?;
        batches.iter().try_for_each(|batch| self.write_batch(&grid, batch))?;
        Ok(grid)
    }

    fn write_batch(&mut self, grid: &Grid, batch: &Batch) -> Result<()> {
        let records = encode(&self.schema, grid, batch, &mut self.summary)?;
        if let Some(tree) = &mut self.tree {
            tree.extend_from_slice(&records);
            if to_u64(tree.len()) > self.memory {
                let what =
                    format!("more than {} bytes of points, all of which it sorts", self.memory);
                return Err(cannot_hold("COPC", what, "raise --memory-limit, or write LAZ"));
            }
            return Ok(());
        }
        match &mut self.chunks {
            Some(chunks) => self.out.write(&chunks.push(&records)?),
            None => self.out.write(&records),
        }
    }

    /// Writes each node of the octree as a chunk, and adds the record of the hierarchy.
    fn write_octree(&mut self, grid: &Grid) -> Result<Option<OctreeInfo>> {
        let (Some(tree), Some(chunks)) = (self.tree.take(), &mut self.chunks) else {
            return Ok(None);
        };
        let size = usize::from(self.schema.record_bytes);
        let cube = Cube::from_bounds(self.summary.min, self.summary.max);
        let mut page = Vec::new();
        let record = |row: usize| &tree[row * size..(row + 1) * size];
        for node in octree::build_nodes(&tree, size, grid, cube) {
            let points: Vec<u8> = node.rows.iter().flat_map(|row| record(*row)).copied().collect();
            let bytes = chunks.compress(&points)?;
            let at = self.out.position()?;
            self.out.write(&bytes)?;
            page.extend(octree::encode_entry(node.key, at, bytes.len(), node.rows.len())?);
        }
        let times = tree.chunks_exact(size).map(|record| RecordNumbers::new(record).f64(22));
        let times = times.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), time| {
            (min.min(time), max.max(time))
        });
        let times = if times.0 > times.1 { (0.0, 0.0) } else { times };
        let len = to_u64(page.len());
        self.evlrs.insert(0, OutRecord::new("copc", 1000, "EPT hierarchy", page));
        Ok(Some((cube, len, times)))
    }
}

impl PieceWriter for LasWriter<'_> {
    fn write(&mut self, piece: Piece) -> Result<()> {
        let Piece::Vertices(batch) = piece else { return Ok(()) };
        if let Some(grid) = self.grid {
            return self.write_batch(&grid, &batch);
        }
        let bytes = batch.fields().iter().map(|field| field.column.bytes().len());
        let bytes = batch.positions().bytes().len() + bytes.sum::<usize>();
        self.pending_bytes += to_u64(bytes);
        self.pending_batches.push(batch);
        if self.pending_bytes > self.memory / 2 {
            self.fix_grid()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<FlowReport> {
        let grid = self.fix_grid()?;
        let octree = self.write_octree(&grid)?;
        if let Some(chunks) = &mut self.chunks {
            let (last, table) = chunks.finish()?;
            self.out.write(&last)?;
            let table_at = self.out.position()?;
            self.out.write(&table)?;
            self.out.write_at(u64::from(self.points_at), &table_at.to_le_bytes())?;
        }
        let mut evlrs = (0, 0);
        if !self.evlrs.is_empty() {
            evlrs.0 = self.out.position()?;
            evlrs.1 = count_u32(self.evlrs.len(), "LAS", "records behind the points")?;
            for record in &self.evlrs {
                self.out.write(&record.evlr())?;
            }
        }
        if let Some((cube, len, times)) = octree {
            let info = octree::encode_info(cube, (evlrs.0 + EVLR_BYTES, len), times);
            self.out.write_at(429, &info)?; // after the header of the file and that of the first VLR
        }
        let header = self.encode_header(&grid, evlrs)?;
        self.out.write_at(0, &header)?;
        let Self { out, summary, mut losses, .. } = *self;
        out.finish()?;
        if summary.moved_coordinates > 0 {
            losses.push(Loss::new(format!(
                "{} moved by up to {:e}: LAS stores whole numbers times {:?}",
                format_count(summary.moved_coordinates, "coordinate"),
                summary.max_shift,
                grid.scales
            )));
        }
        Ok(FlowReport { vertices: summary.count, losses, ..FlowReport::default() })
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
