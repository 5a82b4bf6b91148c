//! An answer with all that a file of another format wants: header, vertices, objects and groups.
//!
//! ```text
//! Export::read    a question, its answer, the attributes of its objects, its groups, the records of formats
//! header          what `zvf_convert::write::find_losses` looks at before the first byte
//! into_pieces     what a `zvf_convert::write::Writer` takes, in its order
//! ```
//!
//! An answer is in memory at once, as [`Reader::run`] has it. Objects keep their ids; groups keep the members that
//! are in the answer.
//!
//! Not here: the formats (`zvf-convert`), and stores from files ([`crate::create`]).

use async_recursion::async_recursion as boxed;
use std::collections::HashSet;

use serde_json::Value as Json;
use zvf_convert::read::{ElementHeader, Group, Header, Piece};
use zvf_metadata::DtypeKind;
use zvf_model::{
    Batch, ColumnBuilder, Field, Kind, LevelReader, Members, ObjectId, RowAttribute, header_names,
};
use zvf_query::{Query, Reader};
use zvf_store::Store;

use crate::Error;

/// What a store answers, ready for any format.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf::convert::Format;
/// use zvf::convert::write::{self, Target, WriteOptions};
///
/// let reader = zvf::open(path, zvf::OpenOptions::default()).await?;
/// let export = zvf::export::Export::read(&reader, zvf::Query::all(), None).await?;
/// let header = export.header.clone();
/// let mut text = Vec::new();
/// let mut writer = write::open(Format::Csv, Target::stream(&mut text), &WriteOptions::default())?;
/// writer.begin(&header)?;
/// for piece in export.into_pieces() {
///     writer.write(piece)?;
/// }
/// assert!(writer.finish()?.vertices > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Export {
    /// What there is.
    pub header: Header,
    /// What the reader should know and that is no error.
    pub notes: Vec<String>,
    batch: Batch,
    objects: Vec<ObjectId>,
    object_fields: Vec<Field>,
    groups: Vec<Group>,
    group_fields: Vec<Field>,
}

impl Export {
    /// Asks `query` of geometry of `kind`, or of the first kind of the store.
    ///
    /// # Errors
    ///
    /// When the question cannot be answered, or what is said of objects and groups cannot be read.
    #[boxed]
    pub async fn read(reader: &Reader, query: Query, kind: Option<Kind>) -> Result<Self, Error> {
        let query = kind.into_iter().fold(query, Query::of_kind);
        let answer = reader.run(&query.clone().with_owners()).await?;
        let kind = answer.batch.kind();
        let batch = if kind.is_chain() { answer.batch } else { tidy(answer.batch)? };
        let mut notes: Vec<String> = answer.notices.iter().map(ToString::to_string).collect();
        if answer.truncated {
            notes.push("the limit cut the answer off: there is more".to_owned());
        }
        let level = reader.level(answer.level).await?;
        let level = level.of_kind(kind).await?.unwrap_or(level);
        let ids = object_ids(&batch);
        let (objects, object_fields) = object_fields(&level, ids).await?;
        let (groups, group_fields) = groups(&level, &objects).await?;
        let mut header = describe(reader.store(), &batch);
        header.object_fields = object_fields.iter().map(empty).collect();
        header.id_field = object_fields
            .iter()
            .find(|field| ID_FIELDS.contains(&&*field.name))
            .map(|field| field.name.to_string());
        header.groups = !groups.is_empty();
        header.group_fields = group_fields.iter().map(empty).collect();
        for name in header_names(reader.store()).await?.names {
            if let Some(record) = zvf_model::header(reader.store(), &name).await? {
                header.records.push((name, Json::Object(record)));
            }
        }
        Ok(Self { header, notes, batch, objects, object_fields, groups, group_fields })
    }

    /// All of it, in the order that writers want.
    pub fn into_pieces(self) -> impl Iterator<Item = Piece> {
        let Self { batch, objects: ids, object_fields: fields, groups, group_fields, .. } = self;
        let objects = (!ids.is_empty()).then_some(Piece::Objects { ids, fields });
        let groups = (!groups.is_empty()).then_some(Piece::Groups { groups, fields: group_fields });
        std::iter::once(Piece::Vertices(batch)).chain(objects).chain(groups)
    }
}

/// What the columns of a batch are.
fn describe(store: &Store, batch: &Batch) -> Header {
    let axes = store.root().axes();
    let names = axes.iter().map(|axis| axis.name.clone()).collect();
    let mut header = Header::new(batch.kind(), names, batch.positions().slice(0..0));
    if axes.iter().any(|axis| axis.unit.is_some()) {
        header.units = axes.iter().map(|axis| axis.unit.clone()).collect();
    }
    header.crs.clone_from(&store.root().zarr_vectors.crs);
    header.fields = batch.fields().iter().map(empty).collect();
    header.objects = batch.vertex_objects().is_some() || !batch.parts().offsets().is_empty();
    header.elements = batch.elements().map(|elements| ElementHeader {
        width: u32::try_from(elements.width()).ok(),
        fields: elements.fields().iter().map(empty).collect(),
    });
    header.vertices = u64::try_from(batch.len()).ok();
    header
}

fn empty(field: &Field) -> Field {
    field.with_column(field.column.slice(0..0))
}

/// The same without runs, where vertices say whose they are.
fn tidy(batch: Batch) -> Result<Batch, Error> {
    if batch.vertex_objects().is_none_or(|owners| owners.iter().any(Option::is_some)) {
        return Ok(batch);
    }
    // No vertex is of an object: the column says nothing.
    let mut bare = Batch::new(batch.kind(), batch.positions().clone());
    for field in batch.fields() {
        bare = bare.with_field(field.clone()).map_err(zvf_query_error)?;
    }
    if let Some(elements) = batch.elements() {
        bare = bare.with_elements(elements.clone()).map_err(zvf_query_error)?;
    }
    Ok(bare)
}

fn zvf_query_error(error: zvf_model::BadBatch) -> Error {
    Error::bad_request("the answer", "columns of one length", &error.to_string())
}

/// The objects of a batch, each once, in the order in which they come.
fn object_ids(batch: &Batch) -> Vec<ObjectId> {
    let owners = batch.vertex_objects().unwrap_or_default().iter().copied().flatten();
    let mut seen = HashSet::new();
    let all = batch.parts().objects().iter().copied().chain(owners);
    all.filter(|object| seen.insert(*object)).collect()
}

/// What is said of objects; those that the index does not know are left out.
async fn object_fields(
    level: &LevelReader,
    ids: Vec<ObjectId>,
) -> Result<(Vec<ObjectId>, Vec<Field>), Error> {
    let Some(index) = level.objects().await?.filter(|_| !ids.is_empty()) else {
        return Ok((ids, Vec::new()));
    };
    let found = index.find(&ids).await?;
    let known: Vec<(ObjectId, u64)> =
        ids.into_iter().zip(found).filter_map(|(id, row)| Some((id, row?))).collect();
    let rows: Vec<u64> = known.iter().map(|(_, row)| *row).collect();
    let mut fields = Vec::new();
    for name in level.object_attribute_names().await?.names {
        if let Some(attribute) = level.object_attribute(&name).await? {
            fields.push(read_rows(&attribute, &rows).await?);
        }
    }
    Ok((known.into_iter().map(|(id, _)| id).collect(), fields))
}

/// Rows of an attribute, absent ones NaN where there is one.
async fn read_rows(attribute: &RowAttribute, rows: &[u64]) -> Result<Field, Error> {
    let values = attribute.rows(rows).await?;
    let column = values.column();
    let dtype = column.dtype();
    if values.absent().is_empty() || dtype.kind != DtypeKind::Float {
        return Ok(attribute.field(column.clone()));
    }
    let nan: Vec<u8> = match dtype.size {
        2 => vec![0x00, 0x7e],
        4 => f32::NAN.to_le_bytes().to_vec(),
        _ => f64::NAN.to_le_bytes().to_vec(),
    };
    let nan = nan.repeat(usize::try_from(column.width()).unwrap_or(0));
    let mut all = ColumnBuilder::like(column);
    for row in 0..column.len() {
        match values.is_present(row) {
            true => all.push_row(column, row),
            false => all.push_bytes(&nan),
        }
    }
    Ok(attribute.field(all.finish()))
}

/// Groups with the members that are among `objects`, and what is said of them.
async fn groups(
    level: &LevelReader,
    objects: &[ObjectId],
) -> Result<(Vec<Group>, Vec<Field>), Error> {
    let Some(catalogue) = level.groups().await? else { return Ok((Vec::new(), Vec::new())) };
    let all: Vec<u64> = (0..catalogue.len()).collect();
    let known: HashSet<ObjectId> = objects.iter().copied().collect();
    let mut groups = Vec::new();
    for (group, members) in all.iter().zip(catalogue.members(&all).await?) {
        let members = match members {
            Members::Ids(ids) => ids.into_iter().filter(|id| known.contains(id)).collect(),
            Members::Range { start, stop } => {
                let within = objects.iter().filter(|id| (start..stop).contains(&id.0));
                within.copied().collect()
            }
        };
        groups.push(Group { name: catalogue.name(*group), members });
    }
    let mut fields = Vec::new();
    for name in level.group_attribute_names().await?.names {
        if let Some(attribute) = level.group_attribute(&name).await? {
            fields.push(read_rows(&attribute, &all).await?);
        }
    }
    Ok((groups, fields))
}

/// Attributes of objects that are their own ids in other formats.
const ID_FIELDS: [&str; 3] = ["segment_id", "annotation_id", "feature_id"];
