//! Files that are appended: read as `zvf create` reads them, and added object by object.

use std::collections::BTreeMap;
use std::error::Error as _;

use serde_json::{Map, Value as Json, json};
use zvf_convert::read::{self, ColumnRoles, Format, Input, Piece, ReadOptions};
use zvf_format::join_causes;
use zvf_model::{Kind, Value};

use crate::error::{EditError, Result};
use crate::fields::{self, Fields};
use crate::geometry::{NONE, Vid};
use crate::transaction::{Done, Transaction};

/// What a file holds of one object, or of vertices without one.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) positions: Vec<Json>,
    pub(crate) attributes: BTreeMap<String, Vec<Json>>,
    pub(crate) values: Fields,
    /// Where each vertex is above another, for trees.
    pub(crate) parents: BTreeMap<usize, usize>,
}

impl Gathered {
    /// The fields of `object.add` or `vertex.add`.
    pub(crate) fn fields(&self, kind: Kind) -> Fields {
        let mut fields = Map::new();
        fields.insert("positions".to_owned(), json!(self.positions));
        if !self.attributes.is_empty() {
            fields.insert("attributes".to_owned(), json!(self.attributes));
        }
        if !self.values.is_empty() {
            fields.insert("values".to_owned(), Json::Object(self.values.clone()));
        }
        if kind == Kind::Skeleton {
            let parents: Vec<Option<usize>> =
                (0..self.positions.len()).map(|i| self.parents.get(&i).copied()).collect();
            fields.insert("parents".to_owned(), json!(parents));
        }
        fields
    }
}

/// A value as a script has it.
pub(crate) fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => json!(flag),
        Value::Int(n) => json!(n),
        Value::UInt(n) => json!(n),
        Value::Float(x) if x.is_nan() => json!("NaN"),
        Value::Float(x) if x.is_infinite() => {
            json!(if *x > 0.0 { "Infinity" } else { "-Infinity" })
        }
        Value::Float(x) => json!(x),
        Value::Text(text) => json!(text),
    }
}

impl Transaction {
    pub(crate) fn append(&mut self, fields: &Fields) -> Result<Done> {
        fields::refuse_unknown(
            fields,
            &["file", "format", "kind", "positions", "object", "columns", "keep_ids"],
        )?;
        let file = fields::text(fields, "file")?
            .ok_or_else(|| EditError::invalid("the field \"file\" is missing"))?;
        if self.kinds.len() > 1 && !fields.contains_key("kind") {
            return Err(EditError::invalid("the store has several kinds: say \"kind\""));
        }
        let kind = self.kind_named(fields.get("kind"))?;
        let what = self.kinds[kind].kind;
        let path = self.folder.join(&file);
        if !path.is_file() {
            return Err(EditError::new(
                zvf_format::Class::NotFound,
                format!("{file}: there is no such file"),
            ));
        }
        let format = fields::text(fields, "format")?;
        let format = format.map(|name| {
            let found = Format::from_token(&name);
            found.ok_or_else(|| EditError::invalid(format!("format: {name:?} is not known")))
        });
        let words = |name: &str| -> Result<Option<Vec<String>>> {
            let Some(list) = fields::list(fields, name)? else { return Ok(None) };
            let words: Option<Vec<String>> =
                list.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            words.map(Some).ok_or_else(|| EditError::invalid(format!("{name}: expected names")))
        };
        let columns = ColumnRoles {
            positions: words("positions")?.unwrap_or_default(),
            object: fields::text(fields, "object")?,
            fields: words("columns")?,
            types: Vec::new(),
        };
        let options = ReadOptions { kind: Some(what), columns, ..ReadOptions::default() };
        let fault = |error: zvf_convert::ConvertError| {
            let message = join_causes(format!("{file}: {error}"), error.source());
            EditError::new(error.class(), message)
        };
        let reader =
            read::open(Input::path(&path), format.transpose()?, &options).map_err(fault)?;
        let keep = fields::flag(fields, "keep_ids")?.unwrap_or(false);
        let with_objects = self.kinds[kind].objects.is_some() || what != Kind::PointCloud;
        let mut gathered: BTreeMap<i64, Gathered> = BTreeMap::new();
        let mut place: Vec<(i64, usize)> = Vec::new();
        let mut links: Vec<LinkRow> = Vec::new();
        for piece in reader {
            match piece.map_err(fault)? {
                Piece::Vertices(batch) => {
                    let base = place.len();
                    let mut owner: Vec<i64> = vec![0; batch.len()];
                    for part in batch.parts().iter() {
                        owner[part.rows.clone()].fill(part.object.0);
                    }
                    for (i, object) in batch.vertex_objects().into_iter().flatten().enumerate() {
                        owner[i] = object.map_or(0, |object| object.0);
                    }
                    if batch.parts().is_empty()
                        && batch.vertex_objects().is_none()
                        && with_objects
                        && what == Kind::PointCloud
                    {
                        return Err(EditError::invalid(format!(
                            "{file}: the points of this store belong to objects; say which column is \"object\""
                        )));
                    }
                    for (i, id) in owner.into_iter().enumerate() {
                        let own = gathered.entry(id).or_default();
                        let axes = batch.positions().width() as usize;
                        let position: Vec<f64> = (0..axes)
                            .map(|c| batch.positions().float(i, c).unwrap_or(f64::NAN))
                            .collect();
                        place.push((id, own.positions.len()));
                        own.positions.push(Json::Array(
                            position.iter().map(|x| to_json(&Value::Float(*x))).collect(),
                        ));
                        for field in batch.fields() {
                            own.attributes
                                .entry(field.name.to_string())
                                .or_default()
                                .push(row(field, i));
                        }
                    }
                    if let Some(elements) = batch.elements() {
                        for (n, ends) in elements.iter().enumerate() {
                            let ends: Vec<usize> = ends.iter().map(|i| base + i).collect();
                            if what == Kind::Skeleton {
                                let ((id, child), (_, parent)) = (place[ends[0]], place[ends[1]]);
                                gathered.entry(id).or_default().parents.insert(child, parent);
                            } else {
                                links.push((
                                    ends,
                                    elements
                                        .fields()
                                        .iter()
                                        .map(|field| (field.name.to_string(), row(field, n)))
                                        .collect(),
                                ));
                            }
                        }
                    }
                }
                Piece::Elements { rows, fields } => {
                    for n in 0..rows.len() {
                        let width = rows.width() as usize;
                        let ends: Vec<usize> = (0..width)
                            .filter_map(|c| rows.float(n, c))
                            .map(|x| x as usize)
                            .collect();
                        links.push((
                            ends,
                            fields
                                .iter()
                                .map(|field| (field.name.to_string(), row(field, n)))
                                .collect(),
                        ));
                    }
                }
                Piece::Objects { ids, fields } => {
                    for (n, id) in ids.iter().enumerate() {
                        let own = gathered.entry(id.0).or_default();
                        own.values.extend(
                            fields.iter().map(|field| (field.name.to_string(), row(field, n))),
                        );
                    }
                }
                Piece::Groups { .. } => {
                    let what = format!(
                        "{file}: groups of a file cannot be appended: convert it to a table"
                    );
                    return Err(EditError::invalid(what));
                }
            }
        }
        let shift = if keep { 0 } else { self.next_id };
        let mut done = Done::default();
        let mut made: BTreeMap<i64, Vec<Vid>> = BTreeMap::new();
        for (id, own) in &gathered {
            if own.positions.is_empty() {
                continue;
            }
            let vertices = self.add_gathered(kind, with_objects.then_some(id + shift), own)?;
            done.changed += vertices.len() as u64;
            if with_objects {
                done.ids.push(id + shift);
            }
            made.insert(*id, vertices);
        }
        let ends_of = |ends: &[usize]| -> Result<Vec<Vid>> {
            let found: Option<Vec<Vid>> =
                ends.iter().map(|i| place.get(*i).map(|(id, n)| made[id][*n])).collect();
            found.ok_or_else(|| {
                EditError::invalid(format!("{file}: an element names a vertex that is not there"))
            })
        };
        for (ends, values) in links {
            let ends = ends_of(&ends)?;
            let attributes: Fields =
                values.into_iter().map(|(name, value)| (name, json!([value]))).collect();
            self.add_records(kind, vec![ends], (!attributes.is_empty()).then_some(&attributes))?;
        }
        Ok(done)
    }

    /// Adds what was gathered of an object, or vertices without one.
    pub(crate) fn add_gathered(
        &mut self,
        kind: usize,
        id: Option<i64>,
        own: &Gathered,
    ) -> Result<Vec<Vid>> {
        let what = self.kinds[kind].kind;
        let fields = own.fields(what);
        match id {
            None => self.make_vertices(kind, NONE, &fields),
            Some(id) => {
                let id = self.allot(Some(id))?;
                let object = self.new_object(kind, id)?;
                self.fill_object(kind, object, &fields)
            }
        }
    }
}

/// The vertices that a link of a file joins, by their place in it, and its values by column.
type LinkRow = (Vec<usize>, Vec<(String, Json)>);

fn row(field: &zvf_model::Field, i: usize) -> Json {
    // A code without a category is for the check of the value to refuse.
    let one = |c: usize| field.value(i, c).map_or(Json::Null, |value| to_json(&value));
    match field.column.width() {
        1 => one(0),
        width => Json::Array((0..width as usize).map(one).collect()),
    }
}
