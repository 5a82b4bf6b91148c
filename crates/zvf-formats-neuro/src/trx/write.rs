//! Writer of TRX: streamlines with attributes and groups, arrays in a zip or in a folder.
//!
//! Arrays grow in parallel and lie one after another in a zip, so each is spooled until the input
//! ends. Members are stored uncompressed, `header.json` first, with names in UTF-8 and without
//! dates, so that the same input gives the same bytes. Positions keep float16 and float64; all
//! other types become float32. Rows of objects are in the order of their vertices, whatever the
//! order of their attributes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde_json::json;
use zvf_error::Result;
use zvf_format::num::saturating_usize;
use zvf_formats::{
    Affine, Chains, FieldBuilder, FormatOptions, Millimeters, NewFile, OpenedWriter, PieceWriter,
    Spool, Target, ZipWriter, arrange_rows, cannot_hold, count_u32, counted_loss, find_record,
    json_items, missing_number,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::{FlowReport, Group, Header, Piece};
use zvf_model::{Batch, Column, Field, ObjectId};

use crate::image::Image;
use crate::streamlines::numeric_fields;

pub(crate) fn open_zip<'a>(file: NewFile<'a, '_>) -> OpenedWriter<'a> {
    open(Destination::Zip(ZipWriter::new(file.target)), file.options, file.header)
}

pub(crate) fn open_folder<'a>(file: NewFile<'a, '_>) -> OpenedWriter<'a> {
    open(Destination::Folder(file.target.into_folder("TRX")?), file.options, file.header)
}

fn open<'a>(
    destination: Destination<'a>,
    options: &FormatOptions,
    header: &Header,
) -> OpenedWriter<'a> {
    let lengths = Millimeters::new(header);
    let stored = header.positions.dtype();
    let is_float = stored.kind == DtypeKind::Float && header.positions.width() == 3;
    let keeps_positions = is_float && lengths.is_identity();
    let dtype = if keeps_positions { stored } else { Dtype::FLOAT32 };
    let arrays = header.fields.len() as u64 + 2; // attributes, positions and offsets
    let max_held = saturating_usize(options.memory / 2 / arrays);
    let array = |name| Array { name, rows: Spool::new(max_held, options.scratch.as_deref()) };
    let mut fields = Vec::new();
    for field in numeric_fields(&header.fields) {
        fields.push(array(format!("dpv/{}", member_name(&field.name, &field.column)?)));
    }
    for field in numeric_fields(&header.object_fields) {
        member_name(&field.name, &field.column)?;
    }
    let absent = json_items(&find_record(header, "trx")["absent"]).iter();
    let absent = absent.filter_map(|pair| {
        Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned())) // a group and an attribute
    });
    Ok(Box::new(TrxWriter {
        destination,
        image: Image::from_header(header),
        chains: Chains::default(),
        lengths,
        keeps_positions,
        positions: array(format!("positions.3.{dtype}")),
        fields,
        ends: Vec::new(),
        rows: Vec::new(),
        object_rows: HashMap::new(),
        object_fields: FieldBuilder::list(numeric_fields(&header.object_fields)),
        groups: Vec::new(),
        group_fields: Vec::new(),
        absent: absent.collect(),
        report: FlowReport::default(),
    }))
}

/// The destination of members.
enum Destination<'a> {
    Zip(ZipWriter<Target<'a>>),
    Folder(PathBuf),
}

impl Destination<'_> {
    fn write(&mut self, name: &str, content: &mut Spool) -> Result<()> {
        match self {
            Self::Zip(zip) => Ok(zip.write(name, content)?),
            Self::Folder(folder) => {
                let path = folder.join(name);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                let mut file = BufWriter::new(File::create(path)?);
                if content.copy_to(&mut file)? == 0 {
                    file.write_all(&[0])?; // a file of 0 bytes cannot be mapped
                }
                Ok(file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?)
            }
        }
    }

    fn write_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut content = Spool::new(usize::MAX, None);
        content.write_all(bytes)?;
        self.write(name, &mut content)
    }
}

/// An array whose rows are spooled, with the name of its member.
struct Array {
    name: String,
    rows: Spool,
}

struct TrxWriter<'a> {
    destination: Destination<'a>,
    image: Image,
    chains: Chains,
    lengths: Millimeters,
    keeps_positions: bool,
    positions: Array,
    fields: Vec<Array>,
    ends: Vec<u64>,                        // of streamlines
    rows: Vec<ObjectId>,                   // the object of each streamline
    object_rows: HashMap<ObjectId, usize>, // row of `object_fields`
    object_fields: Vec<FieldBuilder>,
    groups: Vec<Group>,
    group_fields: Vec<FieldBuilder>,
    absent: Vec<(String, String)>, // attributes that a group does not have
    report: FlowReport,
}

impl TrxWriter<'_> {
    fn write_vertices(&mut self, batch: &Batch) -> Result<()> {
        for run in self.chains.take_runs(batch) {
            self.report.vertices += run.rows.len() as u64;
            match self.ends.last_mut().filter(|_| run.continues) {
                Some(end) => *end = self.report.vertices,
                None => {
                    self.ends.push(self.report.vertices);
                    self.rows.push(run.object);
                }
            }
        }
        if self.keeps_positions {
            self.positions.rows.write_all(batch.positions().bytes())?;
        } else {
            let mut bytes = Vec::with_capacity(batch.len() * 12);
            for row in 0..batch.len() {
                for x in self.lengths.position(batch.positions(), row) {
                    bytes.extend_from_slice(&self.lengths.round_to_f32(x).to_le_bytes());
                }
            }
            self.positions.rows.write_all(&bytes)?;
        }
        for (array, field) in self.fields.iter_mut().zip(numeric_fields(batch.fields())) {
            array.rows.write_all(field.column.bytes())?;
        }
        Ok(())
    }

    /// Writes positions, offsets and attributes.
    fn write_arrays(&mut self) -> Result<()> {
        self.destination.write(&self.positions.name, &mut self.positions.rows)?;
        let is_narrow = u32::try_from(self.report.vertices).is_ok();
        let mut offsets = Vec::new();
        for end in std::iter::once(&0).chain(&self.ends) {
            match u32::try_from(*end).ok().filter(|_| is_narrow) {
                Some(end) => offsets.extend_from_slice(&end.to_le_bytes()),
                None => offsets.extend_from_slice(&end.to_le_bytes()),
            }
        }
        let dtype = if is_narrow { "uint32" } else { "uint64" };
        self.destination.write_bytes(&format!("offsets.{dtype}"), &offsets)?;
        for array in &mut self.fields {
            self.destination.write(&array.name, &mut array.rows)?;
        }
        for field in FieldBuilder::take_all(&mut self.object_fields) {
            let column = &field.column;
            let missing = missing_number(column.dtype()).repeat(column.width() as usize);
            let rows = self.rows.iter().map(|object| self.object_rows.get(object).copied());
            let sorted = arrange_rows(column, rows, &missing);
            let member = member_name(&field.name, column)?;
            self.destination.write_bytes(&format!("dps/{member}"), sorted.bytes())?;
        }
        Ok(())
    }

    fn write_groups(&mut self) -> Result<()> {
        let mut rows_by_object: HashMap<ObjectId, Vec<u32>> = HashMap::new();
        for (row, object) in self.rows.iter().enumerate() {
            let row = count_u32(row, "TRX", "streamlines in groups")?;
            rows_by_object.entry(*object).or_default().push(row);
        }
        let fields = FieldBuilder::take_all(&mut self.group_fields);
        let mut missing = 0_u64;
        for (number, group) in std::mem::take(&mut self.groups).into_iter().enumerate() {
            let name = group.name.unwrap_or_else(|| format!("group_{number}"));
            check_name(&name)?;
            let mut members = Vec::new();
            for object in group.members {
                match rows_by_object.get(&object) {
                    Some(rows) => members.extend(rows.iter().flat_map(|row| row.to_le_bytes())),
                    None => missing += 1,
                }
            }
            self.destination.write_bytes(&format!("groups/{name}.uint32"), &members)?;
            for field in &fields {
                if self.absent.contains(&(name.clone(), field.name.to_string())) {
                    continue;
                }
                let member = member_name(&field.name, &field.column)?;
                let row = field.column.slice(number..number + 1);
                self.destination.write_bytes(&format!("dpg/{name}/{member}"), row.bytes())?;
            }
        }
        let sentence = "of groups dropped: not in the written streamlines";
        self.report.losses.extend(counted_loss(missing, "member", sentence));
        Ok(())
    }
}

impl PieceWriter for TrxWriter<'_> {
    fn write(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Vertices(batch) => self.write_vertices(&batch)?,
            Piece::Objects { ids, fields } => {
                for id in self.chains.take_unseen(&ids) {
                    self.ends.push(self.report.vertices);
                    self.rows.push(id);
                }
                if !self.object_fields.is_empty() {
                    for id in &ids {
                        self.object_rows.insert(*id, self.object_rows.len());
                    }
                }
                push_fields(&mut self.object_fields, &fields);
            }
            Piece::Groups { groups, fields } => {
                self.groups.extend(groups);
                if self.group_fields.is_empty() {
                    self.group_fields = FieldBuilder::list(numeric_fields(&fields));
                }
                push_fields(&mut self.group_fields, &fields);
            }
            Piece::Elements { .. } => {}
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<FlowReport> {
        let header = json!({
            "VOXEL_TO_RASMM": self.image.affine.unwrap_or(Affine::IDENTITY.to_matrix()),
            "DIMENSIONS": self.image.dimensions.unwrap_or([1, 1, 1]),
            "NB_VERTICES": self.report.vertices,
            "NB_STREAMLINES": self.ends.len(),
        });
        self.destination.write_bytes("header.json", header.to_string().as_bytes())?;
        if !self.ends.is_empty() {
            self.write_arrays()?;
        }
        self.write_groups()?;
        if let Destination::Zip(zip) = self.destination {
            zip.finish()?;
        }
        self.report.objects = self.rows.len() as u64;
        self.report.losses.extend(self.chains.losses());
        self.report.losses.extend(self.lengths.losses("coordinate"));
        Ok(self.report)
    }
}

/// Adds the rows of the fields of numbers.
fn push_fields(to: &mut [FieldBuilder], fields: &[Field]) {
    for (builder, field) in to.iter_mut().zip(numeric_fields(fields)) {
        builder.push(field, 0..field.column.len());
    }
}

fn member_name(name: &str, column: &Column) -> Result<String> {
    check_name(name)?;
    let dtype = column.dtype();
    let dtype = if dtype.kind == DtypeKind::Bool { "bit".to_owned() } else { dtype.to_string() };
    Ok(match column.width() {
        1 => format!("{name}.{dtype}"),
        width => format!("{name}.{width}.{dtype}"),
    })
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains(['.', '/', '\\', '\0']) {
        let advice = "names must not have a dot or a slash: leave it out with --attributes";
        return Err(cannot_hold("TRX", format!("the name {name:?}"), advice));
    }
    Ok(())
}
