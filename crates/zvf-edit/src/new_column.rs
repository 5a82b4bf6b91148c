//! The operation `column.add`: new columns of every scope, their declaration in the root, and their arrays.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use zvf_format::num;
use zvf_metadata::DtypeKind;
use zvf_model::Kind;

use crate::arrays::CellArray;
use crate::changes::RowPages;
use crate::columns::{CellColumn, ColumnScope};
use crate::dense::DenseArray;
use crate::error::{OrFail, Result, refused};
use crate::geometry::Geometry;
use crate::groups::GROUP_COLUMNS_PATH;
use crate::indexes::RowColumn;
use crate::links::LinkColumn;
use crate::scalar::{ColumnType, Scalar, to_json};
use crate::transaction::{OperationResult, Transaction};

/// Rows in a chunk of a new column of objects.
const OBJECT_COLUMN_CHUNK_ROWS: usize = 65_536;

/// A new column, as scripts state it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddColumn {
    scope: Option<ColumnScope>,
    name: String,
    dtype: String,
    width: Option<i64>,
    fill: Option<Json>,
    unit: Option<String>,
    description: Option<String>,
    kind: Option<String>,
}

impl AddColumn {
    /// Adds the words about the column to its attributes or its declaration.
    fn describe(&self, attrs: &mut Json) {
        for (word, text) in [("unit", &self.unit), ("description", &self.description)] {
            if let Some(text) = text {
                attrs[word] = json!(text);
            }
        }
    }
}

/// A column to create.
#[derive(Debug)]
pub(crate) struct NewColumn {
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
    /// The initial value of every row.
    pub(crate) fill: Vec<u8>,
    /// The attributes of its array that do not depend on the scope.
    pub(crate) attrs: Json,
}

impl NewColumn {
    fn row_shape(&self) -> Json {
        if self.ty.width > 1 { json!([self.ty.width]) } else { json!([]) }
    }

    /// Creates the column in the cells of `folder`, with these values.
    fn in_cells<D>(self, level: &Geometry, (folder, tag): (&str, &str), data: D) -> CellColumn<D> {
        let row_shape = self.row_shape();
        let Self { name, ty, fill, mut attrs } = self;
        attrs["nonempty_chunks"] = json!([]);
        attrs["zv_array"] = json!(tag);
        attrs["row_shape"] = row_shape;
        if ty.width > 1 {
            let channels: Vec<String> = (0..ty.width).map(|i| format!("ch{i}")).collect();
            attrs["channel_names"] = json!(channels);
        }
        let path = format!("{}/{folder}/{name}", level.path);
        let array = CellArray::create(&level.vertices, &path, attrs);
        CellColumn { name, array, ty, data, is_loaded: false, fill, is_new: true }
    }

    /// Creates the array of a column in rows, with `count` absent rows.
    fn create_rows(
        &self,
        folder: &str,
        tag: &str,
        (chunk_rows, count): (usize, usize),
    ) -> Result<DenseArray> {
        let ColumnType { scalar, width, categories: _ } = self.ty;
        let mut attrs = self.attrs.clone();
        attrs["zv_array"] = json!(tag);
        attrs["shape"] = json!([]);
        // Both values of `bool` are meant.
        if tag == OBJECT_TAG && scalar.kind() != DtypeKind::Bool {
            attrs["fill_sentinel_meaning"] = json!("absent");
        }
        let fill = (to_json(&scalar.decode(&scalar.sentinel())), self.ty.sentinel());
        let path = format!("{folder}/{}", self.name);
        let mut array = DenseArray::create(&path, scalar, width, chunk_rows, fill, attrs)?;
        array.resize(count);
        Ok(array)
    }
}

/// The tag of columns of objects.
const OBJECT_TAG: &str = "object_attribute";

impl Transaction {
    pub(crate) fn add_column(&mut self, new: &AddColumn) -> Result<OperationResult> {
        let scope = new.scope.unwrap_or_default();
        let name = zvf_metadata::path_segment(&new.name).into_owned();
        let kind = self.find_kind(new.kind.as_deref())?;
        self.mark_column(scope, kind, &name);
        self.refuse_taken_name(scope, kind, &name)?;
        let dtype = &new.dtype;
        let (scalar, big) = Scalar::parse(dtype)?;
        if big {
            return refused(format!("dtype {dtype:?}: new columns are little-endian"));
        }
        let width = new.width.unwrap_or(1);
        let width = u32::try_from(width)
            .ok()
            .filter(|width| *width > 0)
            .or_refused(|| format!("width: {width}"))?;
        let text = scalar.kind() == DtypeKind::Text;
        if text && scope != ColumnScope::Object {
            return refused(format!("{}s have no columns of text", scope.word()));
        }
        let mut ty = ColumnType { scalar, width, categories: None };
        let by_row = matches!(scope, ColumnScope::Object | ColumnScope::Group);
        let fill_value = match &new.fill {
            None => None,
            Some(number) if width > 1 && !number.is_array() => {
                ty.encode(&Json::Array(vec![number.clone(); num::usize_from_u32(width)]))?
            }
            Some(number) => ty.encode(number)?,
        };
        let needed = scalar.kind() == DtypeKind::Bool || !by_row && !scalar.is_float();
        if fill_value.is_none() && needed {
            return refused(format!("a column of {} needs \"fill\"", scalar.name()));
        }
        let fill = fill_value.unwrap_or_else(|| ty.sentinel());
        let mut attrs = json!({"name": new.name, "dtype": scalar.name()});
        new.describe(&mut attrs);
        let column = NewColumn { name: name.clone(), ty, fill, attrs };
        self.create_column(scope, kind, column)?;
        self.declare_column(scope, &name, new, scalar, width);
        Ok(OperationResult::new(0, 1))
    }

    /// Declares a column in the root, if the root declares columns.
    fn declare_column(
        &mut self,
        scope: ColumnScope,
        name: &str,
        new: &AddColumn,
        scalar: Scalar,
        width: u32,
    ) {
        let scope = scope.word();
        let specs = &mut self.root_changes()["attributes"]["zarr_vectors"]["attribute_specs"];
        if specs.is_object() && specs[scope].is_object() {
            let mut spec = json!({"dtype": scalar.name()});
            if width > 1 {
                spec["channels"] = json!(width);
            }
            new.describe(&mut spec);
            specs[scope][name] = spec;
        }
    }

    /// Adds a column with the fill value in every row. Refuses a name that no array can have.
    pub(crate) fn create_column(
        &mut self,
        scope: ColumnScope,
        kind: usize,
        column: NewColumn,
    ) -> Result<()> {
        zvf_store::Key::root().child(&column.name)?;
        let geometry = &mut self.kinds[kind];
        match scope {
            ColumnScope::Vertex => {
                geometry.load_all()?;
                let mut data = RowPages::new(column.ty.size());
                data.push(&column.fill.repeat(geometry.vertex.list.len()));
                let column = column.in_cells(geometry, ("vertex_attributes", "attribute"), data);
                geometry.columns.push(CellColumn { is_loaded: true, ..column });
            }
            ColumnScope::Fragment => {
                let place = ("fragment_attributes", "fragment_attribute");
                let column = column.in_cells(geometry, place, HashMap::new());
                geometry.fragment_columns.push(column);
            }
            ColumnScope::Link => return self.create_link_column(kind, column),
            ColumnScope::Object => return geometry.create_object_column(column),
            ColumnScope::Group => {
                let count = self.groups.list.len();
                let tag = "groupings_attribute";
                let mut array =
                    column.create_rows(GROUP_COLUMNS_PATH, tag, (count.max(1), count))?;
                (0..count).for_each(|row| array.set_row(row, &column.fill));
                let NewColumn { name, ty, .. } = column;
                self.groups.columns.push(RowColumn { name, array, ty });
            }
        }
        Ok(())
    }

    fn create_link_column(&mut self, kind: usize, column: NewColumn) -> Result<()> {
        let geometry = &mut self.kinds[kind];
        geometry.load_all()?;
        geometry.load_all_links()?;
        if geometry.kind == Kind::Skeleton && geometry.convention != "explicit" {
            self.store_every_edge(kind)?;
        }
        let geometry = &mut self.kinds[kind];
        if !geometry.has_links() && geometry.kind != Kind::Skeleton {
            return refused(format!("links of a {} have no columns", geometry.kind));
        }
        let family = geometry.links_or_new()?;
        let row_shape = column.row_shape();
        let NewColumn { name, ty, fill, mut attrs } = column;
        attrs["row_shape"] = row_shape;
        family.records.add_column(&fill);
        let arrays = Default::default();
        family.columns.push(LinkColumn { name, ty, attrs, arrays, fill, is_new: true });
        Ok(())
    }

    /// Stores all edges of a skeleton as records, which edges with values require.
    fn store_every_edge(&mut self, kind: usize) -> Result<()> {
        let geometry = &mut self.kinds[kind];
        geometry.convention = "explicit".to_owned();
        for tree in geometry.object_numbers() {
            geometry.mark_object_changed(tree)?;
            geometry.parents_changed.insert(tree);
        }
        let level = &mut geometry.doc["attributes"]["zarr_vectors_level"];
        if level.get("links_convention").is_some() || kind > 0 {
            level["links_convention"] = json!("explicit");
        } else {
            self.root_changes()["attributes"]["zarr_vectors"]["links_convention"] =
                json!("explicit");
        }
        Ok(())
    }
}

impl Geometry {
    fn create_object_column(&mut self, column: NewColumn) -> Result<()> {
        let count = self.objects.as_ref().map_or(0, |objects| objects.manifests.len());
        let folder = format!("{}/object_attributes", self.path);
        let counts = (OBJECT_COLUMN_CHUNK_ROWS, count);
        let mut array = column.create_rows(&folder, OBJECT_TAG, counts)?;
        let ids = self.objects.iter().filter_map(|objects| objects.ids.as_ref());
        let columns = self.object_columns.iter().map(|column| &column.array);
        for like in ids.chain(columns) {
            if array.stored.shard_chunks.is_none() {
                array.stored.shard_like(&like.stored)?;
            }
        }
        let NewColumn { name, ty, fill, .. } = column;
        if let Some(objects) = &mut self.objects {
            for number in objects.numbers() {
                match objects.row(number) {
                    Some(row) if objects.exists(number) => {
                        array.set_row(num::usize_from_u32(row), &fill);
                    }
                    Some(_) => {}
                    None => {
                        objects.know(number).values.insert(name.clone(), fill.clone());
                    }
                }
            }
        }
        self.object_columns.push(RowColumn { name, array, ty });
        Ok(())
    }
}
