//! Operations that drop and rename columns of every scope, and set values of fragments.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use zvf_format::num;

use crate::cell_column::rename_array;
use crate::dense::DenseArray;
use crate::documents::doc_key;
use crate::error::{OrFail, Result, missing_column_error, refused};
use crate::fields::{Fields, checked_index};
use crate::geometry::Geometry;
use crate::groups::GROUP_COLUMNS_PATH;
use crate::indexes::RowColumn;
use crate::kept_columns::{SEGMENT_ID, VERTEX_COUNT};
use crate::transaction::{OperationResult, Transaction};

/// The things that a column has a row for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColumnScope {
    #[default]
    Vertex,
    Object,
    Link,
    Group,
    Fragment,
}

impl ColumnScope {
    /// Returns the word in scripts and documents.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Vertex => "vertex",
            Self::Object => "object",
            Self::Link => "link",
            Self::Group => "group",
            Self::Fragment => "fragment",
        }
    }
}

impl Transaction {
    /// Marks a column as written.
    pub(crate) fn mark_column(&mut self, scope: ColumnScope, kind: usize, name: &str) {
        let item = self.column_item(scope, kind, name);
        self.mark_written(item);
    }

    /// Returns the item by which transactions on a column conflict.
    pub(crate) fn column_item(&self, scope: ColumnScope, kind: usize, name: &str) -> String {
        if scope == ColumnScope::Group {
            return format!("column:group:{name}");
        }
        format!("column:{}:{name}:{}", scope.word(), self.kinds[kind].kind)
    }

    pub(crate) fn column_exists(&self, scope: ColumnScope, kind: usize, name: &str) -> bool {
        let geometry = &self.kinds[kind];
        match scope {
            ColumnScope::Vertex => geometry.columns.iter().any(|column| column.name == name),
            ColumnScope::Object => geometry.object_columns.iter().any(|column| column.name == name),
            ColumnScope::Link => geometry
                .links
                .as_ref()
                .is_some_and(|family| family.columns.iter().any(|column| column.name == name)),
            ColumnScope::Fragment => {
                geometry.fragment_columns.iter().any(|column| column.name == name)
            }
            ColumnScope::Group => self.groups.columns.iter().any(|column| column.name == name),
        }
    }

    /// Begins to change a column as a whole. Returns its name as stored, and its kind.
    fn begin_change(
        &mut self,
        scope: ColumnScope,
        name: &str,
        token: Option<&str>,
    ) -> Result<(String, usize)> {
        let name = zvf_metadata::path_segment(name).into_owned();
        let kind = self.find_kind(token)?;
        self.mark_column(scope, kind, &name);
        match self.column_exists(scope, kind, &name) {
            true => Ok((name, kind)),
            false => {
                let text = format!("there is no column {name:?} of {}s", scope.word());
                refused(text)
            }
        }
    }

    pub(crate) fn refuse_taken_name(
        &self,
        scope: ColumnScope,
        kind: usize,
        name: &str,
    ) -> Result<()> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return refused(format!(
                "name: {name:?} has other characters than letters, digits and _"
            ));
        }
        if self.column_exists(scope, kind, name) {
            return refused(format!("there is a column {name:?} already"));
        }
        Ok(())
    }

    /// Returns the root document for a change.
    pub(crate) fn root_changes(&mut self) -> &mut Json {
        self.new_root.get_or_insert_with(|| self.root.clone())
    }

    /// Returns the declarations of the columns of a scope in the root, for a change.
    fn column_specs(&mut self, scope: ColumnScope) -> Option<&mut Map<String, Json>> {
        let specs = &mut self.root_changes()["attributes"]["zarr_vectors"]["attribute_specs"];
        specs.get_mut(scope.word())?.as_object_mut()
    }

    pub(crate) fn drop_column(
        &mut self,
        scope: ColumnScope,
        name: &str,
        token: Option<&str>,
    ) -> Result<OperationResult> {
        let (name, kind) = self.begin_change(scope, name, token)?;
        let geometry = &mut self.kinds[kind];
        match scope {
            ColumnScope::Vertex => {
                let column = take_column(&mut geometry.columns, |column| column.name == name);
                geometry.erased_arrays.extend(column.map(|(_, column)| column.array));
            }
            ColumnScope::Fragment => {
                let columns = &mut geometry.fragment_columns;
                let column = take_column(columns, |column| column.name == name);
                geometry.erased_arrays.extend(column.map(|(_, column)| column.array));
            }
            ColumnScope::Object => {
                let columns = &mut geometry.object_columns;
                let column = take_column(columns, |column| column.name == name);
                geometry.erased_rows.extend(column.map(|(_, column)| column.array));
                if let Some(objects) = &mut geometry.objects {
                    objects.known.values_mut().for_each(|object| drop(object.values.remove(&name)));
                }
            }
            ColumnScope::Link => {
                let path = geometry.path.clone();
                let Some(family) = &mut geometry.links else {
                    return Ok(OperationResult::default());
                };
                let column = take_column(&mut family.columns, |column| column.name == name);
                let Some((at, column)) = column else { return Ok(OperationResult::default()) };
                family.records.columns.remove(at);
                geometry.erased_arrays.extend(column.arrays.into_values());
                geometry.erased_keys.push(doc_key(&format!("{path}/link_attributes/{name}/0")));
                geometry.erased_keys.push(doc_key(&format!("{path}/link_attributes/{name}")));
            }
            ColumnScope::Group => {
                let column = take_column(&mut self.groups.columns, |column| column.name == name);
                self.groups.erased_columns.extend(column.map(|(_, column)| column.array));
            }
        }
        if let Some(specs) = self.column_specs(scope) {
            specs.shift_remove(&name);
        }
        Ok(OperationResult::new(1, 1))
    }

    pub(crate) fn rename_column(
        &mut self,
        scope: ColumnScope,
        name: &str,
        to: String,
        token: Option<&str>,
    ) -> Result<OperationResult> {
        let (name, kind) = self.begin_change(scope, name, token)?;
        self.refuse_taken_name(scope, kind, &to)?;
        let kept = [(ColumnScope::Object, VERTEX_COUNT), (ColumnScope::Fragment, SEGMENT_ID)];
        if kept.contains(&(scope, to.as_str())) {
            return refused(format!("{to} is kept by the store; make it with column.add"));
        }
        self.mark_column(scope, kind, &to);
        match scope {
            ColumnScope::Vertex => self.kinds[kind].rename_vertex_column(&name, &to)?,
            ColumnScope::Fragment => self.kinds[kind].rename_fragment_column(&name, &to)?,
            ColumnScope::Object => self.kinds[kind].rename_object_column(&name, &to),
            ColumnScope::Link => self.kinds[kind].rename_link_column(&name, &to)?,
            ColumnScope::Group => self.rename_group_column(&name, &to),
        }
        if let Some(specs) = self.column_specs(scope)
            && let Some(spec) = specs.shift_remove(&name)
        {
            specs.insert(to, spec);
        }
        Ok(OperationResult::new(1, 1))
    }

    fn rename_group_column(&mut self, name: &str, to: &str) {
        let Some(column) = self.groups.columns.iter_mut().find(|column| column.name == name) else {
            return;
        };
        self.groups.erased_columns.push(column.rename(&format!("{GROUP_COLUMNS_PATH}/{to}"), to));
    }

    /// Finds a fragment of an object by its index. Returns its kind, chunk and number.
    pub(crate) fn fragment_of_object(
        &mut self,
        id: i64,
        index: Option<i64>,
    ) -> Result<(usize, u32, u32)> {
        let (kind, object) = self.need_object(id)?;
        self.mark_written(format!("object:{id}"));
        let references = self.kinds[kind].references(object)?;
        let n = index.or_refused(|| "missing field `index`".to_owned())?;
        let found = checked_index(n, references.len()).map(|at| references[at]);
        let (chunk, fragment) =
            found.or_refused(|| format!("index {n} of {}", references.len()))?;
        Ok((kind, chunk, fragment))
    }

    /// Finds a fragment by its chunk and number. Returns its kind, chunk and number.
    pub(crate) fn fragment_of_chunk(
        &mut self,
        key: &[i64],
        fragment: Option<i64>,
        token: Option<&str>,
    ) -> Result<(usize, u32, u32)> {
        let kind = self.find_kind(token)?;
        let geometry = &mut self.kinds[kind];
        let number = geometry.chunk_number(key);
        geometry.load_chunk(number)?;
        let n = fragment.or_refused(|| "missing field `fragment`".to_owned())?;
        let count = geometry.chunks[&number].fragments.len();
        let fragment = u32::try_from(n).ok().filter(|n| num::usize_from_u32(*n) < count);
        let fragment = fragment.or_refused(|| format!("chunk {key:?} has no fragment {n}"))?;
        let item = geometry.chunk_item(key);
        self.mark_written(item);
        Ok((kind, number, fragment))
    }

    pub(crate) fn set_fragment(
        &mut self,
        (kind, chunk, fragment): (usize, u32, u32),
        values: &Fields,
    ) -> Result<OperationResult> {
        let geometry = &mut self.kinds[kind];
        geometry.load_chunk(chunk)?;
        for (name, value) in values {
            let column = geometry.fragment_columns.iter_mut().find(|column| column.name == *name);
            let column = column.ok_or_else(|| missing_column_error("fragments", name))?;
            if name == "object_id" || column.is_kept() {
                return refused(format!("{name} is kept by the store and never set"));
            }
            let row = column.ty.encode_present(name, value)?;
            column.data.insert((chunk, fragment), row);
        }
        Ok(OperationResult::new(1, 1))
    }
}

impl RowColumn {
    /// Moves the column to another name and array. Returns the old array.
    fn rename(&mut self, path: &str, to: &str) -> DenseArray {
        let mut array = self.array.copy_to(path);
        array.stored.doc["attributes"]["name"] = json!(to);
        to.clone_into(&mut self.name);
        std::mem::replace(&mut self.array, array)
    }
}

impl Geometry {
    fn rename_vertex_column(&mut self, name: &str, to: &str) -> Result<()> {
        let path = format!("{}/vertex_attributes/{to}", self.path);
        let at = self.need_column(name)?;
        self.load_values(at)?;
        self.erased_arrays.push(self.columns[at].rename(&path, to)?);
        Ok(())
    }

    fn rename_fragment_column(&mut self, name: &str, to: &str) -> Result<()> {
        let path = format!("{}/fragment_attributes/{to}", self.path);
        for column in self.fragment_columns.iter_mut().filter(|column| column.name == name) {
            self.erased_arrays.push(column.rename(&path, to)?);
        }
        Ok(())
    }

    fn rename_object_column(&mut self, name: &str, to: &str) {
        let path = format!("{}/object_attributes/{to}", self.path);
        if let Some(column) = self.object_columns.iter_mut().find(|column| column.name == name) {
            self.erased_rows.push(column.rename(&path, to));
        }
        for object in self.objects.iter_mut().flat_map(|objects| objects.known.values_mut()) {
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
        for (offsets, mut array) in old {
            let path = format!("{}/link_attributes/{to}/0/{offsets}", self.path);
            self.erased_arrays.push(rename_array(&mut array, &path, to)?);
            column.arrays.insert(offsets, array);
        }
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
