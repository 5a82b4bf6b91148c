//! Reader of TRK: streamlines of `TrackVis`.
//!
//! ```text
//! header              1000 bytes: see `header`
//! streamline          n, i32; n x (3 + scalars) f32; properties, f32
//! …                   n_count of them, or up to the end where that is 0
//! ```
//!
//! Positions are converted to the world, in mm, with axes to the right, to the front and up; scalars are
//! attributes of vertices, properties of objects. Object `k` is streamline `k`. A long streamline may
//! have several parts.

mod header;
pub(crate) mod world;

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{nearest_f32, saturating_usize, to_u64, usize_from_u32};
use zvf_formats::{
    Affine, Bytes, FilePlace, FileReader, NamedValues, PieceBuilder, ReadOptions, RecordNumbers,
    Values, VertexBuilder, block_rows, default_axes, empty_fields,
};
use zvf_metadata::Dtype;
use zvf_model::ObjectId;
use zvf_model::flow::Header;

use crate::streamlines::chain_kind;
use crate::trk::read::header::TrkHeader;
use crate::trk::read::world::world_of;

pub(crate) fn open(mut bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let trk_header = TrkHeader::read(&mut bytes)?;
    let kind = chain_kind(&bytes, options)?;
    let world = world_of(&trk_header);
    let expected = "a matrix with three directions";
    let world = bytes.spot("vox_to_ras").need(world, Class::BadShape, expected, "a flat one")?;
    let float32 = Dtype { big_endian: trk_header.big_endian, ..Dtype::FLOAT32 };
    let named_values = |names: &[(String, u32)]| -> Vec<NamedValues> {
        names.iter().map(|(name, width)| NamedValues::new(&**name, float32, *width)).collect()
    };
    let scalars = named_values(&trk_header.scalars);
    let mut vertices = VertexBuilder::new(kind, Values::new(Dtype::FLOAT32, 3), scalars, true);
    let properties = named_values(&trk_header.properties);
    let mut notes = Vec::new();
    if trk_header.vox_to_ras.is_none() {
        notes.push("no matrix is recorded: voxels are taken for mm of the world".to_owned());
    }
    let (space, world) = world.to_space(options.apply_space);
    let header = Header {
        object_fields: empty_fields(&properties)?,
        records: vec![("trk".to_owned(), trk_header.record())],
        space,
        notes,
        ..vertices.header(default_axes(3))?.with_unit("millimeter")
    };
    let row_bytes = |names: &[(String, u32)]| {
        let sum = names.iter().map(|(_, width)| usize_from_u32(*width)).sum::<usize>();
        sum * 4
    };
    let mut streamlines = Streamlines {
        bytes,
        stride: row_bytes(&trk_header.scalars) + POSITION_BYTES,
        property_bytes: row_bytes(&trk_header.properties),
        big_endian: trk_header.big_endian,
        world,
        count: trk_header.count,
        current: 0,
        remaining_points: None,
    };
    let pieces = PieceBuilder { object_fields: properties, ..PieceBuilder::new(vertices, options) };
    Ok(pieces.into_reader(header, move |to| match streamlines.remaining_points {
        None => streamlines.begin(),
        Some(0) => streamlines.end(to),
        Some(remaining) => streamlines.read_points(remaining, to),
    }))
}

/// The streamlines of a file.
struct Streamlines {
    bytes: Bytes,
    stride: usize,         // bytes of a point with its scalars
    property_bytes: usize, // of a streamline
    big_endian: bool,
    world: Affine,
    count: Option<u64>,
    current: u64,                  // the current streamline
    remaining_points: Option<u64>, // of the current streamline, once it began
}

impl Streamlines {
    /// Begins a streamline. Returns `false` at the end of the file.
    fn begin(&mut self) -> Result<bool> {
        let at = self.bytes.position();
        let is_empty = self.bytes.peek()?.is_empty();
        let spot = self.bytes.spot(FilePlace::Byte(at));
        match self.count {
            Some(count) if self.current >= count => {
                let expected = format_args!("the end after {count} streamlines");
                spot.ensure(is_empty, Class::Trailing, expected, "more")?;
                return Ok(false);
            }
            Some(count) if is_empty => {
                let expected = format_args!("{count} streamlines");
                return spot.refuse(Class::Truncated, expected, self.current);
            }
            None if is_empty => return Ok(false),
            _ => {}
        }
        let number: [u8; 4] = self.bytes.read_array("the number of points")?;
        let number = RecordNumbers::new(&number).with_order(self.big_endian).i32(0);
        let Ok(points) = u64::try_from(number) else {
            let expected = "0 points or more".to_owned();
            return self.bytes.spot(FilePlace::Byte(at)).refuse(Class::Negative, expected, number);
        };
        self.remaining_points = Some(points);
        Ok(true)
    }

    /// Returns the object of the current streamline. Each takes bytes of the file, so there are
    /// fewer than 2^63.
    const fn object(&self) -> ObjectId {
        ObjectId(self.current.cast_signed())
    }

    fn read_points(&mut self, remaining: u64, to: &mut PieceBuilder) -> Result<bool> {
        let max_rows = block_rows(self.stride, to.room());
        let rows = saturating_usize(remaining).min(max_rows);
        let mut points = vec![0; rows * self.stride];
        self.bytes.read(&mut points, "the points of a streamline")?;
        let object = self.object();
        for point in points.chunks_exact(self.stride) {
            let (position, mut scalars) = point.split_at(POSITION_BYTES);
            let position = RecordNumbers::new(position).with_order(self.big_endian);
            for x in self.world.apply([0, 4, 8].map(|at| position.f32(at).into())) {
                to.vertices.positions.push_bytes(&nearest_f32(x).to_le_bytes());
            }
            for field in &mut to.vertices.fields {
                let (values, rest) = scalars.split_at(field.bytes());
                field.values.push_bytes(values);
                scalars = rest;
            }
            to.vertices.end_row(Some(object), 0);
        }
        self.remaining_points = Some(remaining - to_u64(rows));
        Ok(true)
    }

    /// Ends a streamline with its properties.
    fn end(&mut self, to: &mut PieceBuilder) -> Result<bool> {
        let mut values = vec![0; self.property_bytes];
        self.bytes.read(&mut values, "the properties of a streamline")?;
        let mut rest = values.as_slice();
        for field in &mut to.object_fields {
            let (field_bytes, after) = rest.split_at(field.bytes());
            field.values.push_bytes(field_bytes);
            rest = after;
        }
        to.end_object(self.object());
        self.current += 1;
        self.remaining_points = None;
        Ok(true)
    }
}

/// Bytes of a position.
const POSITION_BYTES: usize = 12;

#[cfg(test)]
mod tests;
