//! Writer of TRK: streamlines of `TrackVis`, one after another, behind a header of 1000 bytes.
//!
//! Positions are mm from the corner of the first voxel: (inverse(`vox_to_ras`) * world + 1/2) * `voxel_size`, in
//! 64 bits, then rounded. The matrix is that of the header record, in the 32 bits of the file, or that of voxels of
//! 1 mm; `voxel_order` is the direction of its axes, so that no reader flips any. A streamline is its count of points,
//! the points with their scalars, and its properties, which are complete only when the input ends: points are spooled
//! until then.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};

use zvf_error::Result;
use zvf_format::num::{nearest_f32, saturating_usize};
use zvf_formats::{
    Affine, Chains, Millimeters, NewFile, OpenedWriter, PieceWriter, Spool, Target, cannot_hold,
    counted_loss, dot, narrow,
};
use zvf_model::flow::{FlowReport, Loss, Piece};
use zvf_model::{Batch, Column, Field, ObjectId};

use crate::image::Image;
use crate::streamlines::{numeric_fields, order_letters};
use crate::trk::read::world::{closest_axes, transposed_inverse};

pub(crate) fn open<'a>(file: NewFile<'a, '_>) -> OpenedWriter<'a> {
    let NewFile { target: out, options, header } = file;
    let max_held = saturating_usize(options.memory / 2);
    Ok(Box::new(TrkWriter {
        out,
        voxels: Voxels::new(&Image::from_header(header))?,
        chains: Chains::default(),
        lengths: Millimeters::new(header),
        scalars: check_names(&header.fields)?,
        properties: check_names(&header.object_fields)?,
        points: Spool::new(max_held, options.scratch.as_deref()),
        counts: Vec::new(),
        rows: HashMap::new(),
        values: Vec::new(),
        extent: [0.0; 3],
        rounded_values: 0,
        report: FlowReport::default(),
    }))
}

struct TrkWriter<'a> {
    out: Target<'a>,
    voxels: Voxels,
    chains: Chains,
    lengths: Millimeters,
    scalars: Vec<(String, u32)>,
    properties: Vec<(String, u32)>,
    points: Spool,
    counts: Vec<(ObjectId, u32)>,
    rows: HashMap<ObjectId, usize>, // of `values`
    values: Vec<f32>,               // properties, object by object
    extent: [f32; 3],               // the largest coordinates
    rounded_values: u64,
    report: FlowReport,
}

impl PieceWriter for TrkWriter<'_> {
    fn write(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Vertices(batch) => self.write_points(&batch),
            Piece::Objects { ids, fields } => {
                for id in self.chains.take_unseen(&ids) {
                    self.counts.push((id, 0));
                }
                let fields: Vec<&Field> = numeric_fields(&fields).collect();
                for (row, id) in ids.iter().enumerate() {
                    self.rows.insert(*id, self.rows.len());
                    for field in &fields {
                        push_row(&field.column, row, &mut self.values, &mut self.rounded_values);
                    }
                }
                Ok(())
            }
            Piece::Elements { .. } | Piece::Groups { .. } => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<FlowReport> {
        let count = self.counts.len();
        let Ok(count) = i32::try_from(count) else {
            return Err(cannot_hold("TRK", format!("{count} streamlines"), "write it in parts"));
        };
        let (dimensions, dimension_loss) = self.voxels.count(self.extent);
        let header =
            encode_header(&self.voxels, dimensions, &self.scalars, &self.properties, count);
        self.out.write_all(&header)?;
        let width = |names: &[(String, u32)]| names.iter().map(|(_, w)| *w as usize).sum::<usize>();
        let (stride, property_count) = ((3 + width(&self.scalars)) * 4, width(&self.properties));
        let mut points = self.points.reader()?;
        let mut streamline = Vec::new();
        for (object, count) in &self.counts {
            streamline.resize(*count as usize * stride, 0);
            points.read_exact(&mut streamline)?;
            self.out.write_all(&count.to_le_bytes())?;
            self.out.write_all(&streamline)?;
            let row = self.rows.get(object).map(|row| row * property_count);
            for at in 0..property_count {
                let value = row.and_then(|row| self.values.get(row + at)).copied();
                self.out.write_all(&value.unwrap_or(f32::NAN).to_le_bytes())?;
            }
        }
        drop(points);
        self.out.flush()?;
        self.report.objects = self.counts.len() as u64;
        self.report.losses = self.chains.losses();
        self.report.losses.extend(dimension_loss);
        let rounded = counted_loss(self.rounded_values, "attribute value", "rounded to float32");
        self.report.losses.extend(rounded);
        Ok(self.report)
    }
}

impl TrkWriter<'_> {
    fn write_points(&mut self, batch: &Batch) -> Result<()> {
        let fields: Vec<&Field> = numeric_fields(batch.fields()).collect();
        let (mut bytes, mut scalars) = (Vec::new(), Vec::new());
        for run in self.chains.take_runs(batch) {
            let before = match self.counts.last() {
                Some((_, count)) if run.continues => *count as usize,
                _ => 0,
            };
            let count = before + run.rows.len();
            let what = format_args!("{count} points of a streamline");
            let points: i32 = narrow(count, "TRK", what, "write it in parts")?;
            let points = points.cast_unsigned();
            match self.counts.last_mut().filter(|_| run.continues) {
                Some((_, count)) => *count = points,
                None => self.counts.push((run.object, points)),
            }
            for row in run.rows {
                let place = self.lengths.position(batch.positions(), row);
                let place = self.voxels.position_from_world(place);
                for (x, extent) in place.into_iter().zip(&mut self.extent) {
                    bytes.extend_from_slice(&x.to_le_bytes());
                    *extent = extent.max(x);
                }
                scalars.clear();
                for field in &fields {
                    push_row(&field.column, row, &mut scalars, &mut self.rounded_values);
                }
                bytes.extend(scalars.iter().flat_map(|x| x.to_le_bytes()));
            }
        }
        self.report.vertices += batch.len() as u64;
        Ok(self.points.write_all(&bytes)?)
    }
}

fn push_row(column: &Column, row: usize, to: &mut Vec<f32>, rounded_values: &mut u64) {
    for at in 0..column.width() as usize {
        let wide = column.float(row, at).unwrap_or(f64::NAN);
        let narrow = nearest_f32(wide);
        *rounded_values += u64::from(f64::from(narrow) != wide && !wide.is_nan());
        to.push(narrow);
    }
}

/// Returns the names and widths of attributes, and refuses those that the header has no room for.
fn check_names(fields: &[Field]) -> Result<Vec<(String, u32)>> {
    let names: Vec<(String, u32)> =
        numeric_fields(fields).map(|f| (f.name.to_string(), f.column.width())).collect();
    let advice = "leave some out with --attributes, or write TRX";
    if names.len() > MAX_NAMES {
        let what = format!("{} attributes, where there is room for {MAX_NAMES}", names.len());
        return Err(cannot_hold("TRK", what, advice));
    }
    let values: u64 = names.iter().map(|(_, width)| u64::from(*width)).sum();
    if values > MAX_VALUES {
        let what = format!("{values} values of attributes, where there is room for {MAX_VALUES}");
        return Err(cannot_hold("TRK", what, advice));
    }
    for (name, width) in &names {
        let room = if *width > 1 { NAME_BYTES - 1 - width.to_string().len() } else { NAME_BYTES };
        if name.is_empty() || name.len() > room || name.contains('\0') {
            let what = format!("the name {name:?}, which is not of 1 to {room} bytes");
            return Err(cannot_hold("TRK", what, advice));
        }
    }
    Ok(names)
}

/// The image of the streamlines, and the transform into its voxels.
#[derive(Clone)]
struct Voxels {
    matrix: [[f32; 4]; 4],
    inverse: [[f64; 3]; 3],
    size: [f32; 3],
    order: String,
    dimensions: Option<[i64; 3]>,
}

impl Voxels {
    fn new(image: &Image) -> Result<Self> {
        let affine = image.affine.unwrap_or(Affine::IDENTITY.to_matrix());
        let matrix = affine.map(|row| row.map(nearest_f32));
        let [a, b, c, _] = matrix.map(|row| row.map(f64::from));
        let rotation = Affine([a, b, c]).linear();
        let (Some(transposed), Some(directions)) =
            (transposed_inverse(rotation), closest_axes([a, b, c]))
        else {
            let what = "a matrix whose axes lie in a plane".to_owned();
            return Err(cannot_hold("TRK", what, "correct the header record of the input"));
        };
        let inverse = [0, 1, 2].map(|row| transposed.map(|column| column[row]));
        let size = [0, 1, 2].map(|axis| {
            nearest_f32(rotation.iter().map(|row| row[axis] * row[axis]).sum::<f64>().sqrt())
        });
        let order = order_letters(&directions);
        Ok(Self { matrix, inverse, size, order, dimensions: image.dimensions })
    }

    /// Returns the number of voxels on each axis: those of the image, or enough for streamlines of this extent, at
    /// least one. Returns the loss where the header has no room for them.
    #[expect(clippy::as_conversions, reason = "bounded before")]
    fn count(&self, extent: [f32; 3]) -> ([i16; 3], Option<Loss>) {
        let covered = [0, 1, 2].map(|axis| f64::from(extent[axis] / self.size[axis]).ceil());
        let counts = self.dimensions.map_or(covered, |counts| counts.map(|count| count as f64));
        let counts = counts.map(|count| count.max(1.0));
        let loss = counts.iter().any(|count| *count > f64::from(i16::MAX)).then(|| {
            let [a, b, c] = counts;
            Loss::new(format!(
                "an image of {a} x {b} x {c} voxels is written as one of at most 32767 on an axis"
            ))
        });
        (counts.map(|count| count.min(f64::from(i16::MAX)) as i16), loss)
    }

    /// Converts a position of the world to mm from the corner of the first voxel.
    fn position_from_world(&self, position: [f64; 3]) -> [f32; 3] {
        let offset = [0, 1, 2].map(|axis| position[axis] - f64::from(self.matrix[axis][3]));
        [0, 1, 2].map(|axis| {
            nearest_f32((dot(self.inverse[axis], offset) + 0.5) * f64::from(self.size[axis]))
        })
    }
}

#[expect(clippy::as_conversions, reason = "checked before")]
fn encode_header(
    voxels: &Voxels,
    dimensions: [i16; 3],
    scalars: &[(String, u32)],
    properties: &[(String, u32)],
    count: i32,
) -> Vec<u8> {
    let mut raw = vec![0_u8; HEADER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"TRACK");
    for (axis, (count, size)) in dimensions.into_iter().zip(voxels.size).enumerate() {
        put(6 + axis * 2, &count.to_le_bytes());
        put(12 + axis * 4, &size.to_le_bytes());
    }
    for (at, names) in [(36, scalars), (238, properties)] {
        let values: u32 = names.iter().map(|(_, width)| *width).sum();
        put(at, &(values as i16).to_le_bytes());
        for (n, (name, width)) in names.iter().enumerate() {
            let start = at + 2 + n * NAME_BYTES;
            put(start, name.as_bytes());
            if *width > 1 {
                put(start + name.len() + 1, width.to_string().as_bytes());
            }
        }
    }
    for (at, value) in voxels.matrix.iter().flatten().enumerate() {
        put(440 + at * 4, &value.to_le_bytes());
    }
    put(948, voxels.order.as_bytes());
    put(988, &count.to_le_bytes());
    put(992, &2_i32.to_le_bytes());
    put(996, &1000_i32.to_le_bytes());
    raw
}

const HEADER_BYTES: usize = 1000;
/// Bytes of the field of a name.
const NAME_BYTES: usize = 20;
/// Most names of scalars, and of properties.
const MAX_NAMES: usize = 10;
/// Most values of scalars, and of properties: their count has 16 bits.
const MAX_VALUES: u64 = 32_767;

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;

    use super::*;

    #[test]
    fn refuses_more_values_than_the_header_counts() {
        let field = |name: &str, width: u32| {
            Field::new(name, Column::empty(Dtype::FLOAT32, width).unwrap())
        };
        assert!(check_names(&[field("a", 32_766), field("b", 1)]).is_ok());
        let error = check_names(&[field("a", 32_766), field("b", 2)]).unwrap_err().to_string();
        assert!(error.contains("32768 values"), "{error}");
    }

    #[test]
    fn reports_more_voxels_than_the_header_counts() {
        let covered = Voxels::new(&Image::default()).unwrap();
        assert_eq!(covered.count([0.0, 1.5, 32_767.0]), ([1, 2, 32_767], None));
        let stated = Voxels { dimensions: Some([4, 32_767, 32_768]), ..covered.clone() };
        let text =
            "an image of 4 x 32767 x 32768 voxels is written as one of at most 32767 on an axis";
        assert_eq!(stated.count([0.0; 3]), ([4, 32_767, 32_767], Some(Loss::new(text))));
    }
}
