//! Operations that drop and rename columns of every scope, and set values of fragments.

use serde_json::{Value as Json, json};
use zvf_format::num;

use crate::arrays::{CellArray, doc_key};
use crate::dense::DenseArray;
use crate::error::{EditError, Result};
use crate::fields::{self, Fields};
use crate::geometry::Geometry;
use crate::groups::GROUP_COLUMNS_PATH;
use crate::indexes::RowColumn;
use crate::transaction::{OperationResult, Transaction};

const SCOPES: [&str; 5] = ["vertex", "object", "link", "group", "fragment"];

impl Transaction {
    /// Returns the scope, kind and name of the column that the fields name, and marks it as written.
    pub(crate) fn need_scope(&mut self, fields: &Fields) -> Result<(String, usize, String)> {
        let scope =
            fields::read_word(fields, "scope", &SCOPES)?.unwrap_or_else(|| "vertex".to_owned());
        let name = fields::read_text(fields, "name")?
            .ok_or_else(|| EditError::invalid("the field \"name\" is missing"))?;
        let name = zvf_metadata::path_segment(&name).into_owned();
        let kind = self.find_kind(fields.get("kind"))?;
        if scope == "group" {
            self.mark_written(format!("column:group:{name}"));
        } else {
            self.mark_written(format!("column:{scope}:{name}:{}", self.kinds[kind].kind));
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

    pub(crate) fn refuse_taken_name(&self, scope: &str, kind: usize, name: &str) -> Result<()> {
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

    /// Returns the root document for a change.
    pub(crate) fn root_changes(&mut self) -> &mut Json {
        self.new_root.get_or_insert_with(|| self.root.clone())
    }

    pub(crate) fn column_drop(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["scope", "name", "kind"])?;
        let (scope, kind, name) = self.need_scope(fields)?;
        self.need_column(&scope, kind, &name)?;
        let geometry = &mut self.kinds[kind];
        match scope.as_str() {
            "vertex" => {
                let column = take_column(&mut geometry.columns, |column| column.name == name);
                geometry.erased_arrays.extend(column.map(|(_, column)| column.array));
            }
            "fragment" => {
                let columns = &mut geometry.fragment_columns;
                let column = take_column(columns, |column| column.name == name);
                geometry.erased_arrays.extend(column.map(|(_, column)| column.array));
            }
            "object" => {
                let columns = &mut geometry.object_columns;
                let column = take_column(columns, |column| column.name == name);
                geometry.erased_rows.extend(column.map(|(_, column)| column.array));
                for object in
                    geometry.objects.iter_mut().flat_map(|objects| objects.list.iter_mut())
                {
                    object.values.remove(&name);
                }
            }
            "link" => {
                let path = geometry.path.clone();
                let Some(family) = &mut geometry.links else {
                    return Ok(OperationResult::default());
                };
                let column = take_column(&mut family.columns, |column| column.name == name);
                let Some((at, column)) = column else { return Ok(OperationResult::default()) };
                for record in &mut family.records {
                    record.values.remove(at);
                }
                geometry.erased_arrays.extend(column.arrays.into_values());
                geometry.erased_keys.push(doc_key(&format!("{path}/link_attributes/{name}/0")));
                geometry.erased_keys.push(doc_key(&format!("{path}/link_attributes/{name}")));
            }
            _ => {
                let column = take_column(&mut self.groups.columns, |column| column.name == name);
                self.groups.erased_columns.extend(column.map(|(_, column)| column.array));
            }
        }
        let specs = &mut self.root_changes()["attributes"]["zarr_vectors"]["attribute_specs"];
        if let Some(list) = specs.get_mut(&scope).and_then(Json::as_object_mut) {
            list.shift_remove(&name);
        }
        Ok(OperationResult { selected: 1, changed: 1, ids: Vec::new() })
    }

    pub(crate) fn column_rename(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["scope", "name", "to", "kind"])?;
        let (scope, kind, name) = self.need_scope(fields)?;
        let to = fields::read_text(fields, "to")?
            .ok_or_else(|| EditError::invalid("the field \"to\" is missing"))?;
        self.need_column(&scope, kind, &name)?;
        self.refuse_taken_name(&scope, kind, &to)?;
        self.mark_written(match scope.as_str() {
            "group" => format!("column:group:{to}"),
            _ => format!("column:{scope}:{to}:{}", self.kinds[kind].kind),
        });
        match scope.as_str() {
            "vertex" => self.kinds[kind].rename_vertex_column(&name, &to)?,
            "fragment" => self.kinds[kind].rename_fragment_column(&name, &to)?,
            "object" => self.kinds[kind].rename_object_column(&name, &to),
            "link" => self.kinds[kind].rename_link_column(&name, &to)?,
            _ => self.rename_group_column(&name, &to),
        }
        let specs = &mut self.root_changes()["attributes"]["zarr_vectors"]["attribute_specs"];
        if let Some(list) = specs.get_mut(&scope).and_then(Json::as_object_mut)
            && let Some(spec) = list.shift_remove(&name)
        {
            list.insert(to, spec);
        }
        Ok(OperationResult { selected: 1, changed: 1, ids: Vec::new() })
    }

    fn rename_group_column(&mut self, name: &str, to: &str) {
        let Some(column) = self.groups.columns.iter_mut().find(|column| column.name == name) else {
            return;
        };
        self.groups.erased_columns.push(column.rename(&format!("{GROUP_COLUMNS_PATH}/{to}"), to));
    }

    /// Finds the fragment that the fields name, by object and index or by chunk and number. Returns its kind, chunk and number.
    fn need_fragment(&mut self, fields: &Fields) -> Result<(usize, u32, u32)> {
        match (fields::read_int(fields, "object")?, fields.get("chunk")) {
            (Some(id), None) => self.need_fragment_of_object(id, fields),
            (None, Some(chunk)) => self.need_fragment_of_chunk(chunk, fields),
            _ => Err(EditError::invalid(
                "\"object\" and \"index\", or \"chunk\" and \"fragment\" are wanted",
            )),
        }
    }

    fn need_fragment_of_object(&mut self, id: i64, fields: &Fields) -> Result<(usize, u32, u32)> {
        let (kind, object) = self.need_object(id)?;
        self.mark_written(format!("object:{id}"));
        let references = self.kinds[kind].references(object)?;
        let n = fields::read_int(fields, "index")?
            .ok_or_else(|| EditError::invalid("the field \"index\" is missing"))?;
        let found = fields::checked_index(n, references.len()).map(|at| references[at]);
        let (chunk, fragment) = found
            .ok_or_else(|| EditError::invalid(format!("index {n} of {}", references.len())))?;
        Ok((kind, chunk, fragment))
    }

    fn need_fragment_of_chunk(
        &mut self,
        chunk: &Json,
        fields: &Fields,
    ) -> Result<(usize, u32, u32)> {
        let kind = self.find_kind(fields.get("kind"))?;
        let key: Option<Vec<i64>> =
            chunk.as_array().and_then(|parts| parts.iter().map(Json::as_i64).collect());
        let key = key.ok_or_else(|| {
            EditError::invalid(format!("chunk: expected whole numbers, found {chunk}"))
        })?;
        let geometry = &mut self.kinds[kind];
        let number = geometry.chunk_number(&key);
        geometry.load_chunk(number)?;
        let n = fields::read_int(fields, "fragment")?
            .ok_or_else(|| EditError::invalid("the field \"fragment\" is missing"))?;
        let count = geometry.chunks[&number].fragments.len();
        let fragment = u32::try_from(n).ok().filter(|n| num::usize_from_u32(*n) < count);
        let fragment = fragment
            .ok_or_else(|| EditError::invalid(format!("chunk {key:?} has no fragment {n}")))?;
        let kind_name = self.kinds[kind].kind;
        self.mark_written(format!("chunk:{kind_name}:{}", crate::arrays::chunk_text(&key)));
        Ok((kind, number, fragment))
    }

    pub(crate) fn fragment_set(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(
            fields,
            &["object", "index", "chunk", "fragment", "values", "kind"],
        )?;
        let values = fields::read_map(fields, "values")?
            .ok_or_else(|| EditError::invalid("the field \"values\" is missing"))?;
        let (kind, chunk, fragment) = self.need_fragment(fields)?;
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
        Ok(OperationResult { selected: 1, changed: 1, ids: Vec::new() })
    }
}

impl RowColumn {
    /// Moves the column to another name and array. Returns the old array.
    fn rename(&mut self, path: &str, to: &str) -> DenseArray {
        let mut array = self.array.copy_to(path);
        array.doc["attributes"]["name"] = json!(to);
        to.clone_into(&mut self.name);
        std::mem::replace(&mut self.array, array)
    }
}

impl Geometry {
    /// Copies the array of a column to `path`, with the name `to`.
    fn rename_array(&self, array: &CellArray, path: &str, to: &str) -> Result<CellArray> {
        let mut array = array.copy_to(&self.snap, &format!("{}/{path}", self.path))?;
        array.set_attribute("name", json!(to));
        Ok(array)
    }

    fn rename_vertex_column(&mut self, name: &str, to: &str) -> Result<()> {
        let Some(at) = self.columns.iter().position(|column| column.name == name) else {
            return Ok(());
        };
        let path = format!("vertex_attributes/{to}");
        let array = self.rename_array(&self.columns[at].array, &path, to)?;
        let column = &mut self.columns[at];
        to.clone_into(&mut column.name);
        self.erased_arrays.push(std::mem::replace(&mut column.array, array));
        Ok(())
    }

    fn rename_fragment_column(&mut self, name: &str, to: &str) -> Result<()> {
        let Some(at) = self.fragment_columns.iter().position(|column| column.name == name) else {
            return Ok(());
        };
        let path = format!("fragment_attributes/{to}");
        let array = self.rename_array(&self.fragment_columns[at].array, &path, to)?;
        let column = &mut self.fragment_columns[at];
        to.clone_into(&mut column.name);
        self.erased_arrays.push(std::mem::replace(&mut column.array, array));
        Ok(())
    }

    fn rename_object_column(&mut self, name: &str, to: &str) {
        let path = format!("{}/object_attributes/{to}", self.path);
        if let Some(column) = self.object_columns.iter_mut().find(|column| column.name == name) {
            self.erased_rows.push(column.rename(&path, to));
        }
        for object in self.objects.iter_mut().flat_map(|objects| &mut objects.list) {
            if let Some(value) = object.values.remove(name) {
                object.values.insert(to.to_owned(), value);
            }
        }
    }

    fn rename_link_column(&mut self, name: &str, to: &str) -> Result<()> {
        self.load_all()?;
        self.load_all_links()?;
        let column = self
            .links
            .as_mut()
            .and_then(|family| family.columns.iter_mut().find(|column| column.name == name));
        let Some(column) = column else { return Ok(()) };
        let old = std::mem::take(&mut column.arrays);
        column.attrs["name"] = json!(to);
        to.clone_into(&mut column.name);
        column.is_new = true;
        for (offsets, array) in &old {
            let path = format!("{}/link_attributes/{to}/0/{offsets}", self.path);
            let mut new = array.copy_to(&self.snap, &path)?;
            new.set_attribute("name", json!(to));
            column.arrays.insert(offsets.clone(), new);
        }
        self.erased_arrays.extend(old.into_values());
        self.erased_keys.push(doc_key(&format!("{}/link_attributes/{name}/0", self.path)));
        self.erased_keys.push(doc_key(&format!("{}/link_attributes/{name}", self.path)));
        Ok(())
    }
}

/// Removes the first column that matches from a list. Returns its index and itself.
fn take_column<C>(columns: &mut Vec<C>, matches: impl Fn(&C) -> bool) -> Option<(usize, C)> {
    let at = columns.iter().position(matches)?;
    Some((at, columns.remove(at)))
}
