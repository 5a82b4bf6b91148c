//! Operations on columns of every scope, and on values of fragments.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use zvf_model::Kind;

use crate::arrays::{CellArray, doc_key};
use crate::dense::DenseArray;
use crate::error::{EditError, Result};
use crate::fields::{self, Fields};
use crate::geometry::{FragmentColumn, VertexColumn};
use crate::groups::COLUMNS;
use crate::indexes::RowColumn;
use crate::links::LinkColumn;
use crate::scalar::{Scalar, Type};
use crate::transaction::{Done, Transaction};

const SCOPES: [&str; 5] = ["vertex", "object", "link", "group", "fragment"];

impl Transaction {
    fn scope(&mut self, fields: &Fields) -> Result<(String, usize, String)> {
        let scope = fields::word(fields, "scope", &SCOPES)?.unwrap_or_else(|| "vertex".to_owned());
        let name = fields::text(fields, "name")?
            .ok_or_else(|| EditError::invalid("the field \"name\" is missing"))?;
        let kind = self.kind_named(fields.get("kind"))?;
        if scope == "group" {
            self.write_item(format!("column:group:{name}"));
        } else {
            self.write_item(format!("column:{scope}:{name}:{}", self.kinds[kind].kind));
        }
        Ok((scope, kind, name))
    }

    pub(crate) fn column_exists(&self, scope: &str, kind: usize, name: &str) -> bool {
        let geometry = &self.kinds[kind];
        match scope {
            "vertex" => geometry.columns.iter().any(|column| column.name == name),
            "object" => geometry.object_columns.iter().any(|column| column.name == name),
            "link" => geometry
                .links
                .as_ref()
                .is_some_and(|family| family.columns.iter().any(|column| column.name == name)),
            "fragment" => geometry.fragment_columns.iter().any(|column| column.name == name),
            _ => self.groups.columns.iter().any(|column| column.name == name),
        }
    }

    fn need_column(&self, scope: &str, kind: usize, name: &str) -> Result<()> {
        if self.column_exists(scope, kind, name) {
            return Ok(());
        }
        Err(EditError::invalid(format!("there is no column {name:?} of {scope}s")))
    }

    fn free_name(&self, scope: &str, kind: usize, name: &str) -> Result<()> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(EditError::invalid(format!(
                "name: {name:?} has other characters than letters, digits and _"
            )));
        }
        if self.column_exists(scope, kind, name) {
            return Err(EditError::invalid(format!("there is a column {name:?} already")));
        }
        Ok(())
    }

    pub(crate) fn column_add(&mut self, fields: &Fields) -> Result<Done> {
        fields::refuse_unknown(
            fields,
            &["scope", "name", "dtype", "width", "fill", "unit", "description", "kind"],
        )?;
        let (scope, kind, name) = self.scope(fields)?;
        self.free_name(&scope, kind, &name)?;
        let dtype = fields::text(fields, "dtype")?
            .ok_or_else(|| EditError::invalid("the field \"dtype\" is missing"))?;
        let (scalar, big) = Scalar::parse(&dtype)?;
        if big {
            return Err(EditError::invalid(format!(
                "dtype {dtype:?}: new columns are little-endian"
            )));
        }
        let width = fields::int(fields, "width")?.unwrap_or(1);
        let width = u32::try_from(width)
            .ok()
            .filter(|width| *width > 0)
            .ok_or_else(|| EditError::invalid(format!("width: {width}")))?;
        let text = matches!(scalar, Scalar::Text(_) | Scalar::Bytes(_));
        if text && !matches!(scope.as_str(), "object") {
            return Err(EditError::invalid(format!("{scope}s have no columns of text")));
        }
        let mut ty = Type { scalar, width, categories: None };
        let by_row = matches!(scope.as_str(), "object" | "group");
        let given = match fields.get("fill") {
            None | Some(Json::Null) => None,
            Some(Json::Array(list)) => ty.encode(&Json::Array(list.clone()))?,
            Some(one) if width > 1 => ty.encode(&Json::Array(vec![one.clone(); width as usize]))?,
            Some(one) => ty.encode(one)?,
        };
        let needed = scalar == Scalar::Bool || !by_row && !scalar.is_float();
        if given.is_none() && needed {
            return Err(EditError::invalid(format!(
                "a column of {} needs \"fill\"",
                scalar.name()
            )));
        }
        let fill = given.unwrap_or_else(|| ty.sentinel());
        let mut attrs = json!({"name": name, "dtype": scalar.name()});
        for word in ["unit", "description"] {
            if let Some(text) = fields::text(fields, word)? {
                attrs[word] = json!(text);
            }
        }
        self.make_column(&scope, kind, &name, ty, fill, attrs)?;
        self.declare(&scope, &name, fields, scalar, width)?;
        Ok(Done { selected: 0, changed: 1, ids: Vec::new() })
    }

    /// The declaration of a column in the root, where columns are declared.
    fn declare(
        &mut self,
        scope: &str,
        name: &str,
        fields: &Fields,
        scalar: Scalar,
        width: u32,
    ) -> Result<()> {
        let specs = &mut self.root_changes()["attributes"]["zarr_vectors"]["attribute_specs"];
        if specs.is_object() && specs[scope].is_object() {
            let mut spec = json!({"dtype": scalar.name()});
            if width > 1 {
                spec["channels"] = json!(width);
            }
            for word in ["unit", "description"] {
                if let Some(text) = fields::text(fields, word)? {
                    spec[word] = json!(text);
                }
            }
            specs[scope][name] = spec;
        }
        Ok(())
    }

    /// Adds a column whose rows are all `fill`.
    pub(crate) fn make_column(
        &mut self,
        scope: &str,
        kind: usize,
        name: &str,
        ty: Type,
        fill: Vec<u8>,
        mut attrs: Json,
    ) -> Result<()> {
        let geometry = &mut self.kinds[kind];
        let path = geometry.path.clone();
        let channels: Vec<String> = (0..ty.width).map(|i| format!("ch{i}")).collect();
        let cell_attrs = |tag: &str, mut attrs: Json| -> Json {
            attrs["nonempty_chunks"] = json!([]);
            attrs["zv_array"] = json!(tag);
            attrs["row_shape"] = if ty.width > 1 { json!([ty.width]) } else { json!([]) };
            if ty.width > 1 {
                attrs["channel_names"] = json!(channels);
            }
            attrs
        };
        match scope {
            "vertex" => {
                geometry.load_all()?;
                let array = CellArray::create(
                    &geometry.vertices,
                    &format!("{path}/vertex_attributes/{name}"),
                    cell_attrs("attribute", attrs),
                );
                let data = fill.repeat(geometry.home.len());
                geometry.columns.push(VertexColumn {
                    name: name.to_owned(),
                    array,
                    ty,
                    data,
                    fill: Some(fill),
                    is_new: true,
                });
            }
            "fragment" => {
                let array = CellArray::create(
                    &geometry.vertices,
                    &format!("{path}/fragment_attributes/{name}"),
                    cell_attrs("fragment_attribute", attrs),
                );
                geometry.fragment_columns.push(FragmentColumn {
                    name: name.to_owned(),
                    array,
                    ty,
                    set: HashMap::new(),
                    fill,
                    is_new: true,
                });
            }
            "link" => {
                geometry.load_all()?;
                let trees: Vec<u32> =
                    (0..geometry.objects.as_ref().map_or(0, |objects| objects.list.len()) as u32)
                        .collect();
                geometry.load_all_links()?;
                if geometry.kind == Kind::Skeleton && geometry.convention != "explicit" {
                    // Edges with values are records, all of them.
                    geometry.convention = "explicit".to_owned();
                    for tree in trees {
                        geometry.touch(tree)?;
                        geometry.parents_changed.insert(tree);
                    }
                    let first = kind == 0;
                    let own = geometry.doc["attributes"]["zarr_vectors_level"]
                        .get("links_convention")
                        .is_some();
                    if own || !first {
                        geometry.doc["attributes"]["zarr_vectors_level"]["links_convention"] =
                            json!("explicit");
                    } else {
                        self.root_changes()["attributes"]["zarr_vectors"]["links_convention"] =
                            json!("explicit");
                    }
                }
                let geometry = &mut self.kinds[kind];
                if !geometry.has_links() && geometry.kind != Kind::Skeleton {
                    return Err(EditError::invalid(format!(
                        "links of a {} have no columns",
                        geometry.kind
                    )));
                }
                if geometry.links.is_none() {
                    geometry.links = Some(crate::links::Family::create(&path, 2, geometry.axes)?);
                }
                let attrs = {
                    let mut attrs = attrs;
                    attrs["row_shape"] = if ty.width > 1 { json!([ty.width]) } else { json!([]) };
                    attrs
                };
                if let Some(family) = &mut geometry.links {
                    for record in &mut family.records {
                        record.values.push(fill.clone());
                    }
                    family.columns.push(LinkColumn {
                        name: name.to_owned(),
                        ty,
                        attrs,
                        arrays: Default::default(),
                        fill,
                        is_new: true,
                    });
                }
            }
            "object" | "group" => {
                let (sentinel, zarr_fill) = (ty.sentinel(), zarr_fill(ty.scalar));
                let count = match scope {
                    "object" => {
                        geometry.objects.as_ref().map_or(0, |objects| objects.manifests.rows.len())
                    }
                    _ => self.groups.list.len(),
                };
                let (tag, path, chunk) = match scope {
                    "object" => {
                        ("object_attribute", format!("{path}/object_attributes/{name}"), 65536)
                    }
                    _ => ("groupings_attribute", format!("{COLUMNS}/{name}"), count.max(1)),
                };
                attrs["zv_array"] = json!(tag);
                attrs["shape"] = json!([]);
                if scope == "object" {
                    attrs["fill_sentinel_meaning"] = json!("absent");
                }
                let mut array = DenseArray::create(
                    &path,
                    ty.scalar,
                    ty.width,
                    chunk,
                    (zarr_fill, sentinel),
                    attrs,
                )?;
                array.resize(count);
                if scope == "object" {
                    let geometry = &mut self.kinds[kind];
                    let list: Vec<(Option<u32>, bool)> = geometry
                        .objects
                        .iter()
                        .flat_map(|objects| {
                            objects.list.iter().map(|object| (object.row, object.exists))
                        })
                        .collect();
                    for (number, (row, exists)) in list.into_iter().enumerate() {
                        match row {
                            Some(row) if exists => array.set(row as usize, &fill),
                            None => {
                                geometry
                                    .object_mut(number as u32)?
                                    .values
                                    .insert(name.to_owned(), fill.clone());
                            }
                            Some(_) => {}
                        }
                    }
                    geometry.object_columns.push(RowColumn { name: name.to_owned(), array, ty });
                } else {
                    for row in 0..count {
                        array.set(row, &fill);
                    }
                    self.groups.columns.push(RowColumn { name: name.to_owned(), array, ty });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The root document, to be changed.
    pub(crate) fn root_changes(&mut self) -> &mut Json {
        self.new_root.get_or_insert_with(|| self.root.clone())
    }

    pub(crate) fn column_drop(&mut self, fields: &Fields) -> Result<Done> {
        fields::refuse_unknown(fields, &["scope", "name", "kind"])?;
        let (scope, kind, name) = self.scope(fields)?;
        self.need_column(&scope, kind, &name)?;
        let geometry = &mut self.kinds[kind];
        match scope.as_str() {
            "vertex" => {
                let column = take_named(&mut geometry.columns, |column| column.name == name);
                geometry.erased.extend(column.map(|(_, column)| column.array));
            }
            "fragment" => {
                let columns = &mut geometry.fragment_columns;
                let column = take_named(columns, |column| column.name == name);
                geometry.erased.extend(column.map(|(_, column)| column.array));
            }
            "object" => {
                let column = take_named(&mut geometry.object_columns, |column| column.name == name);
                geometry.erased_rows.extend(column.map(|(_, column)| column.array));
                for object in
                    geometry.objects.iter_mut().flat_map(|objects| objects.list.iter_mut())
                {
                    object.values.remove(&name);
                }
            }
            "link" => {
                let path = geometry.path.clone();
                let Some(family) = &mut geometry.links else { return Ok(Done::default()) };
                let column = take_named(&mut family.columns, |column| column.name == name);
                let Some((at, column)) = column else { return Ok(Done::default()) };
                for record in &mut family.records {
                    record.values.remove(at);
                }
                geometry.erased.extend(column.arrays.into_values());
                geometry.erased_keys.push(doc_key(&format!("{path}/link_attributes/{name}/0")));
                geometry.erased_keys.push(doc_key(&format!("{path}/link_attributes/{name}")));
            }
            _ => {
                let column = take_named(&mut self.groups.columns, |column| column.name == name);
                self.groups.erased.extend(column.map(|(_, column)| column.array));
            }
        }
        let specs = &mut self.root_changes()["attributes"]["zarr_vectors"]["attribute_specs"];
        if let Some(list) = specs.get_mut(&scope).and_then(Json::as_object_mut) {
            list.shift_remove(&name);
        }
        Ok(Done { selected: 1, changed: 1, ids: Vec::new() })
    }

    pub(crate) fn column_rename(&mut self, fields: &Fields) -> Result<Done> {
        fields::refuse_unknown(fields, &["scope", "name", "to", "kind"])?;
        let (scope, kind, name) = self.scope(fields)?;
        let to = fields::text(fields, "to")?
            .ok_or_else(|| EditError::invalid("the field \"to\" is missing"))?;
        self.need_column(&scope, kind, &name)?;
        self.free_name(&scope, kind, &to)?;
        self.write_item(match scope.as_str() {
            "group" => format!("column:group:{to}"),
            _ => format!("column:{scope}:{to}:{}", self.kinds[kind].kind),
        });
        let geometry = &mut self.kinds[kind];
        let (path, snap) = (geometry.path.clone(), std::rc::Rc::clone(&geometry.snap));
        match scope.as_str() {
            "vertex" => {
                if let Some(column) = geometry.columns.iter_mut().find(|column| column.name == name)
                {
                    let mut array =
                        column.array.renamed(&snap, &format!("{path}/vertex_attributes/{to}"))?;
                    array.set_attribute("name", json!(to));
                    geometry.erased.push(std::mem::replace(&mut column.array, array));
                    column.name.clone_from(&to);
                }
            }
            "fragment" => {
                if let Some(column) =
                    geometry.fragment_columns.iter_mut().find(|column| column.name == name)
                {
                    let mut array =
                        column.array.renamed(&snap, &format!("{path}/fragment_attributes/{to}"))?;
                    array.set_attribute("name", json!(to));
                    geometry.erased.push(std::mem::replace(&mut column.array, array));
                    column.name.clone_from(&to);
                }
            }
            "object" => {
                if let Some(column) =
                    geometry.object_columns.iter_mut().find(|column| column.name == name)
                {
                    let mut array = column.array.renamed(&format!("{path}/object_attributes/{to}"));
                    array.doc["attributes"]["name"] = json!(to);
                    geometry.erased_rows.push(std::mem::replace(&mut column.array, array));
                    column.name.clone_from(&to);
                }
                for object in
                    geometry.objects.iter_mut().flat_map(|objects| objects.list.iter_mut())
                {
                    if let Some(value) = object.values.remove(&name) {
                        object.values.insert(to.clone(), value);
                    }
                }
            }
            "link" => {
                geometry.load_all()?;
                geometry.load_all_links()?;
                if let Some(family) = &mut geometry.links
                    && let Some(column) =
                        family.columns.iter_mut().find(|column| column.name == name)
                {
                    let old = std::mem::take(&mut column.arrays);
                    for (offsets, array) in &old {
                        let mut new = array
                            .renamed(&snap, &format!("{path}/link_attributes/{to}/0/{offsets}"))?;
                        new.set_attribute("name", json!(to));
                        column.arrays.insert(offsets.clone(), new);
                    }
                    column.attrs["name"] = json!(to);
                    column.name.clone_from(&to);
                    column.is_new = true;
                    geometry.erased.extend(old.into_values());
                    geometry.erased_keys.push(doc_key(&format!("{path}/link_attributes/{name}/0")));
                    geometry.erased_keys.push(doc_key(&format!("{path}/link_attributes/{name}")));
                }
            }
            _ => {
                if let Some(column) =
                    self.groups.columns.iter_mut().find(|column| column.name == name)
                {
                    let mut array = column.array.renamed(&format!("{COLUMNS}/{to}"));
                    array.doc["attributes"]["name"] = json!(to);
                    self.groups.erased.push(std::mem::replace(&mut column.array, array));
                    column.name.clone_from(&to);
                }
            }
        }
        let specs = &mut self.root_changes()["attributes"]["zarr_vectors"]["attribute_specs"];
        if let Some(list) = specs.get_mut(&scope).and_then(Json::as_object_mut)
            && let Some(spec) = list.shift_remove(&name)
        {
            list.insert(to, spec);
        }
        Ok(Done { selected: 1, changed: 1, ids: Vec::new() })
    }

    pub(crate) fn fragment_set(&mut self, fields: &Fields) -> Result<Done> {
        fields::refuse_unknown(
            fields,
            &["object", "index", "chunk", "fragment", "values", "kind"],
        )?;
        let values = fields::map(fields, "values")?
            .ok_or_else(|| EditError::invalid("the field \"values\" is missing"))?;
        let (kind, chunk, fragment) = match (fields::int(fields, "object")?, fields.get("chunk")) {
            (Some(id), None) => {
                let (kind, object) = self.need_object(id)?;
                self.write_item(format!("object:{id}"));
                let references = self.kinds[kind].references(object)?;
                let n = fields::int(fields, "index")?
                    .ok_or_else(|| EditError::invalid("the field \"index\" is missing"))?;
                let at = if n < 0 { n + references.len() as i64 } else { n };
                let found = usize::try_from(at).ok().and_then(|at| references.get(at));
                let (chunk, fragment) = found.ok_or_else(|| {
                    EditError::invalid(format!("index {n} of {}", references.len()))
                })?;
                (kind, *chunk, *fragment)
            }
            (None, Some(chunk)) => {
                let kind = self.kind_named(fields.get("kind"))?;
                let key: Option<Vec<i64>> =
                    chunk.as_array().and_then(|parts| parts.iter().map(Json::as_i64).collect());
                let key = key.ok_or_else(|| {
                    EditError::invalid(format!("chunk: expected whole numbers, found {chunk}"))
                })?;
                let geometry = &mut self.kinds[kind];
                let number = geometry.chunk_number(&key);
                geometry.load_chunk(number)?;
                let n = fields::int(fields, "fragment")?
                    .ok_or_else(|| EditError::invalid("the field \"fragment\" is missing"))?;
                let count = geometry.chunks[&number].fragments.len();
                let fragment = u32::try_from(n).ok().filter(|n| (*n as usize) < count);
                let fragment = fragment.ok_or_else(|| {
                    EditError::invalid(format!("chunk {key:?} has no fragment {n}"))
                })?;
                self.write_item(format!(
                    "chunk:{}:{}",
                    self.kinds[kind].kind,
                    crate::arrays::chunk_text(&key)
                ));
                (kind, number, fragment)
            }
            _ => {
                return Err(EditError::invalid(
                    "\"object\" and \"index\", or \"chunk\" and \"fragment\" are wanted",
                ));
            }
        };
        let geometry = &mut self.kinds[kind];
        geometry.load_chunk(chunk)?;
        for (name, value) in values {
            if name == "object_id" {
                return Err(EditError::invalid("object_id is kept by the store and never set"));
            }
            let column = geometry.fragment_columns.iter_mut().find(|column| column.name == *name);
            let column = column
                .ok_or_else(|| EditError::invalid(format!("fragments have no column {name:?}")))?;
            let row = match column.ty.encode(value)? {
                Some(row) => row,
                None if column.ty.scalar.is_float() => column.ty.sentinel(),
                None => {
                    return Err(EditError::invalid(format!(
                        "{name}: {} has no value for absent",
                        column.ty.scalar.name()
                    )));
                }
            };
            column.set.insert((chunk, fragment), row);
        }
        Ok(Done { selected: 1, changed: 1, ids: Vec::new() })
    }
}

/// Takes the column that is meant out of a list, with the place it had.
fn take_named<C>(columns: &mut Vec<C>, is_meant: impl Fn(&C) -> bool) -> Option<(usize, C)> {
    let at = columns.iter().position(is_meant)?;
    Some((at, columns.remove(at)))
}

/// The sentinel as an array document has it.
fn zarr_fill(scalar: Scalar) -> Json {
    match scalar {
        Scalar::Float(_) => json!("NaN"),
        Scalar::Int(n) => json!(i64::MIN >> (64 - u32::from(n) * 8)),
        Scalar::UInt(n) => json!(u64::MAX >> (64 - u32::from(n) * 8)),
        Scalar::Bool => json!(false),
        Scalar::Text(_) | Scalar::Bytes(_) => json!(""),
    }
}
