//! New columns: the operation `column.add`, for columns of every scope, their declaration in the
//! root, and their arrays; and the command `attach`, which joins the columns of a CSV or TSV table
//! to objects, by id or by a column.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use zvf_convert::read::{TextRow, TextTable, is_missing_word, read_table};
use zvf_error::join_causes;
use zvf_format::num;
use zvf_metadata::{Dtype, DtypeKind, path_segment};
use zvf_model::{Kind, Value};
use zvf_query::predicate::Scope;

use crate::arrays::CellArray;
use crate::cell_column::CellColumn;
use crate::commit::{commit_operation, open_journal};
use crate::dense::DenseArray;
use crate::error::{EditError, OrFail, Result, missing_column_error, refuse_if, refused};
use crate::geometry::Geometry;
use crate::groups::GROUP_COLUMNS_PATH;
use crate::indexes::{RowColumn, columns_path};
use crate::links::LinkColumn;
use crate::numbers::NONE;
use crate::options::CommitOptions;
use crate::place::Place;
use crate::row_pages::RowPages;
use crate::scalar::{ColumnType, Scalar, to_json};
use crate::transaction::{OperationResult, Transaction};

/// Rows in a chunk of a new column of objects.
const OBJECT_COLUMN_CHUNK_ROWS: usize = 65_536;

/// A new column, as scripts state it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddColumn {
    scope: Option<Scope>,
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
        if scalar.kind() != DtypeKind::Bool {
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
        let name = path_segment(&new.name).into_owned();
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
        if text && scope != Scope::Object {
            return refused(format!("a column of scope {} cannot hold text", scope.word()));
        }
        let mut ty = ColumnType { scalar, width, categories: None };
        let by_row = matches!(scope, Scope::Object | Scope::Group);
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
        let is_integer = matches!(scalar.kind(), DtypeKind::Int | DtypeKind::UInt);
        let is_absent = by_row && is_integer && fill_value == Some(ty.sentinel());
        refuse_if(is_absent, "fill: this value stands for absent; choose a wider type")?;
        let fill = fill_value.unwrap_or_else(|| ty.sentinel());
        let mut attrs = json!({"name": new.name, "dtype": scalar.name()});
        new.describe(&mut attrs);
        self.declare_column(scope, &name, &ty, Some(new));
        self.create_column(scope, kind, NewColumn { name, ty, fill, attrs })?;
        Ok(OperationResult::new(0, 1))
    }

    /// Declares a column in the root, if the root declares columns of the scope.
    fn declare_column(
        &mut self,
        scope: Scope,
        name: &str,
        ty: &ColumnType,
        new: Option<&AddColumn>,
    ) {
        let specs = &mut self.new_root["attributes"]["zarr_vectors"]["attribute_specs"];
        if specs.is_object() && specs[scope.word()].is_object() {
            let mut spec = json!({"dtype": ty.scalar.name()});
            if ty.width > 1 {
                spec["channels"] = json!(ty.width);
            }
            new.into_iter().for_each(|new| new.describe(&mut spec));
            specs[scope.word()][name] = spec;
        }
    }

    /// Adds a column with the fill value in every row. Refuses a name that no array can have.
    pub(crate) fn create_column(
        &mut self,
        scope: Scope,
        kind: usize,
        column: NewColumn,
    ) -> Result<()> {
        zvf_store::Key::root().child(&column.name)?;
        let geometry = &mut self.kinds[kind];
        match scope {
            Scope::Vertex => {
                geometry.load_all()?;
                let mut data = RowPages::new(column.ty.size());
                data.push(&column.fill.repeat(geometry.vertex.list.len()));
                let column = column.in_cells(geometry, ("vertex_attributes", "attribute"), data);
                geometry.columns.push(CellColumn { is_loaded: true, ..column });
            }
            Scope::Fragment => {
                let place = ("fragment_attributes", "fragment_attribute");
                let column = column.in_cells(geometry, place, BTreeMap::new());
                geometry.fragment_columns.push(column);
            }
            Scope::Link => return self.create_link_column(kind, column),
            Scope::Object => return geometry.create_object_column(column),
            Scope::Group => {
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
        if geometry.kind == Kind::Skeleton && !geometry.has_explicit_links {
            self.store_every_edge(kind)?;
        }
        let geometry = &mut self.kinds[kind];
        if !geometry.has_links() && geometry.kind != Kind::Skeleton {
            return refused(format!("links of a {} have no columns", geometry.kind));
        }
        let family = &mut geometry.links;
        let row_shape = column.row_shape();
        let NewColumn { name, ty, fill, mut attrs } = column;
        attrs["row_shape"] = row_shape;
        family.records.add_column(&fill);
        let (group, arrays) = (format!("{}/link_attributes/{name}", family.path), BTreeMap::new());
        family.columns.push(LinkColumn { name, group, ty, attrs, arrays, is_new: true });
        Ok(())
    }

    /// Stores all edges of a skeleton as records, which edges with values require.
    fn store_every_edge(&mut self, kind: usize) -> Result<()> {
        let geometry = &mut self.kinds[kind];
        geometry.has_explicit_links = true;
        for tree in geometry.objects.numbers() {
            geometry.mark_object_changed(tree)?;
            geometry.parents_changed.insert(tree);
            for child in geometry.vertices_of(tree) {
                let (parent, links) = (geometry.vertex[child].parent, &mut geometry.links);
                if parent != NONE && links.records.edge_above(child).is_none() {
                    links.insert([child, parent], &links.blank_values())?;
                }
            }
        }
        let level = &mut geometry.doc["attributes"]["zarr_vectors_level"];
        if level.get("links_convention").is_some() || kind > 0 {
            level["links_convention"] = json!("explicit");
        } else {
            let root = &mut self.new_root["attributes"]["zarr_vectors"];
            root["links_convention"] = json!("explicit");
        }
        Ok(())
    }
}

impl Geometry {
    fn create_object_column(&mut self, column: NewColumn) -> Result<()> {
        let count = num::usize_from_u32(self.objects.count);
        let folder = columns_path(&self.path);
        let counts = (OBJECT_COLUMN_CHUNK_ROWS, count);
        let mut array = column.create_rows(&folder, OBJECT_TAG, counts)?;
        let columns = self.objects.columns.iter().map(|column| &column.array);
        for like in self.objects.ids.iter().chain(columns) {
            if !array.stored.is_sharded() {
                array.stored.shard_like(&like.stored)?;
            }
        }
        let NewColumn { name, ty, fill, .. } = column;
        for number in self.objects.numbers().filter(|number| self.objects.exists(*number)) {
            array.set_row(num::usize_from_u32(number), &fill);
        }
        array.bytes.settle();
        self.objects.columns.push(RowColumn { name, array, ty });
        Ok(())
    }
}

/// How a table is joined.
#[derive(Clone, Debug, Default)]
pub struct Join {
    /// The key column of the table, which names the object of each row.
    pub key: String,
    /// The column of objects that the key is compared with; `None` for their ids.
    pub on: Option<String>,
    /// The columns to join; `None` for all but the key.
    pub columns: Option<Vec<String>>,
    /// The prefix of the names of new columns.
    pub prefix: String,
    /// Whether columns of the same name are replaced.
    pub replace: bool,
    /// Whether a row without an object is an error.
    pub strict: bool,
}

/// Adds columns of a table to the objects of a store, in one commit.
///
/// # Errors
///
/// When the table cannot be read, a key occurs twice, or a column exists already.
pub fn attach(
    store: impl Into<Place>,
    table: &Path,
    join: &Join,
    options: &CommitOptions,
) -> Result<Json> {
    let journal = open_journal(&store.into(), options)?;
    let parsed = read_table(table).map_err(|error| {
        let message = join_causes(format!("{}: {error}", table.display()), error.source());
        EditError::new(error.class(), message)
    })?;
    let key = column_index(&parsed, &join.key)?;
    let columns: Vec<usize> = match &join.columns {
        Some(list) => list.iter().map(|name| column_index(&parsed, name)).collect::<Result<_>>()?,
        None => (0..parsed.names.len()).filter(|i| *i != key).collect(),
    };
    let mut transaction = Transaction::begin(&journal)?;
    let by_key = transaction.objects_by_key(join.on.as_deref())?;
    let (matched, unmatched) = join_rows(&parsed, key, &by_key, join.strict)?;
    for at in columns {
        transaction.attach_column(&parsed, at, join, &matched)?;
    }
    let operation = json!({"op": "attach", "table": table.to_string_lossy(), "key": join.key});
    let text = format!("{unmatched} rows of the table have no object");
    let notice = (unmatched > 0).then(|| json!({"code": "rows_without_object", "text": text}));
    let notices = notice.into_iter().collect();
    commit_operation(&journal, transaction, (operation, notices), options)
}

/// The index of a kind, and the number of an object of it.
type ObjectPlace = (usize, u32);

/// The rows of a table that name an object, each with it, and the number of rows that name none.
type Matched<'a> = (Vec<(ObjectPlace, &'a [String])>, u64);

/// Returns the index of a column.
fn column_index(table: &TextTable, name: &str) -> Result<usize> {
    table.names.iter().position(|listed| listed == name).or_refused(|| {
        format!("the table has no column {name:?}; it has {}", table.names.join(", "))
    })
}

/// Joins rows to objects by the column `key`. With `strict`, refuses a row without an object.
fn join_rows<'a>(
    table: &'a TextTable,
    key: usize,
    by_key: &BTreeMap<String, ObjectPlace>,
    strict: bool,
) -> Result<Matched<'a>> {
    let mut matched = Vec::new();
    let mut lines_by_key: HashMap<String, u64> = HashMap::new();
    let mut unmatched = 0;
    for TextRow { line, values } in &table.rows {
        let text = normalize_key(&values[key]);
        if let Some(earlier) = lines_by_key.insert(text.clone(), *line) {
            return refused(format!(
                "lines {earlier} and {line} of the table have the same key {text}"
            ));
        }
        match by_key.get(&text) {
            Some(found) => matched.push((*found, values.as_slice())),
            None if strict => {
                return refused(format!("line {line} of the table: no object has the key {text}"));
            }
            None => unmatched += 1,
        }
    }
    Ok((matched, unmatched))
}

impl Transaction {
    /// Returns the objects by their id, or by their value in the column `on`.
    fn objects_by_key(&mut self, on: Option<&str>) -> Result<BTreeMap<String, ObjectPlace>> {
        let mut by_key = BTreeMap::new();
        for (id, kind, object) in self.existing_objects() {
            let text = match on {
                None => id.to_string(),
                Some(on) => {
                    let name = path_segment(on.strip_prefix("object.").unwrap_or(on)).into_owned();
                    if self.find_column(Scope::Object, kind, &name).is_none() {
                        return Err(missing_column_error("objects", &name));
                    }
                    let Some(text) = self.kinds[kind].object_text(object, &name) else { continue };
                    text
                }
            };
            if by_key.insert(text.clone(), (kind, object)).is_some() {
                return refused(format!("two objects have the key {text}"));
            }
        }
        Ok(by_key)
    }

    /// Adds the column with the index `at` of a table to the objects of all kinds.
    fn attach_column(
        &mut self,
        table: &TextTable,
        at: usize,
        join: &Join,
        matched: &[(ObjectPlace, &[String])],
    ) -> Result<()> {
        let own_name = format!("{}{}", join.prefix, table.names[at]);
        let name = path_segment(&own_name).into_owned();
        let scalar = infer_type(table.rows.iter().map(|row| row.values[at].as_str()))
            .or_refused(|| format!("{name}: a field is too long"))?;
        for kind in 0..self.kinds.len() {
            if !self.kinds[kind].has_objects {
                continue;
            }
            if self.find_column(Scope::Object, kind, &name).is_some() {
                if !join.replace {
                    return refused(format!(
                        "objects have a column {name:?} already; use --replace or --prefix"
                    ));
                }
                let token = self.kinds[kind].kind.token();
                self.drop_column(Scope::Object, &name, Some(token))?;
            }
            let ty = ColumnType::from_scalar(scalar);
            self.declare_column(Scope::Object, &name, &ty, None);
            let attrs = json!({"name": own_name, "dtype": scalar.name()});
            let column = NewColumn { name: name.clone(), fill: ty.sentinel(), ty, attrs };
            self.create_column(Scope::Object, kind, column)?;
            self.mark_column(Scope::Object, kind, &name);
            let objects = &mut self.kinds[kind].objects;
            let created = objects.columns.len() - 1;
            for ((_, object), row) in matched.iter().filter(|((of, _), _)| *of == kind) {
                let Some(value) = parse_value(scalar, &row[at]) else { continue };
                let ty = &mut objects.columns[created].ty;
                let bytes = ty.encode_or(Some(&ty.sentinel()), &own_name, &value)?;
                objects.know(*object);
                objects.columns[created].set_row(*object, &bytes);
            }
        }
        Ok(())
    }
}

/// Parses a field of a table as a value of this type. Returns `None` for a missing one.
fn parse_value(scalar: Scalar, text: &str) -> Option<Json> {
    match (scalar.kind(), text.trim()) {
        (DtypeKind::Text, _) => Some(json!(text)),
        (_, number) if is_missing(number) => None,
        (DtypeKind::Int, text) => Some(text.parse::<i64>().map_or(Json::Null, Json::from)),
        (DtypeKind::UInt, text) => Some(text.parse::<u64>().map_or(Json::Null, Json::from)),
        (_, text) => Some(to_json(&Value::Float(text.parse().unwrap_or(f64::NAN)))),
    }
}

/// Returns whether a field of a column of numbers has none.
fn is_missing(text: &str) -> bool {
    text.is_empty() || is_missing_word(text)
}

/// Normalizes a key, so that different spellings of a number are equal.
fn normalize_key(text: &str) -> String {
    let text = text.trim();
    match (text.parse::<i128>(), text.parse::<f64>()) {
        (Ok(n), _) => n.to_string(),
        (_, Ok(x)) if x.is_finite() => json!(x).to_string(),
        _ => text.to_owned(),
    }
}

/// Returns the simplest type that holds all values of a column; `None` when no text is that long.
fn infer_type<'a>(values: impl Iterator<Item = &'a str>) -> Option<Scalar> {
    let (mut is_int, mut is_uint, mut is_float, mut longest) = (true, true, true, 1);
    let (mut has_words, mut has_values) = (false, false);
    for text in values {
        longest = longest.max(text.chars().count());
        let text = text.trim();
        if is_missing(text) {
            has_words |= !text.is_empty();
            continue;
        }
        has_values = true;
        is_int &= text.parse::<i64>().is_ok();
        is_uint &= text.parse::<u64>().is_ok();
        // An integer that `f64` would round, such as an id, is kept exactly as text.
        is_float &= match text.parse::<i128>() {
            Ok(n) => n as f64 as i128 == n,
            // Digits beyond the range of `f64` give an infinity that is not meant.
            Err(_) => text
                .parse::<f64>()
                .is_ok_and(|x| !x.is_infinite() || !text.contains(|c: char| c.is_ascii_digit())),
        };
    }
    if has_words && !has_values {
        return Scalar::text(longest);
    }
    let kind = match (is_int, is_uint, is_float) {
        (true, ..) => DtypeKind::Int,
        (_, true, _) => DtypeKind::UInt,
        (_, _, true) => DtypeKind::Float,
        _ => return Scalar::text(longest),
    };
    Scalar::plain(Dtype { kind, ..Dtype::INT64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_keys_beyond_f64() {
        assert_eq!(normalize_key(" +007 "), "7");
        assert_eq!(normalize_key("18446744073709551615"), "18446744073709551615");
        assert_ne!(normalize_key("9223372036854775809"), normalize_key("9223372036854775810"));
        assert_eq!(normalize_key("1.50"), "1.5");
    }

    #[test]
    fn infers_the_simplest_type_of_a_column() {
        for (values, scalar) in [
            (&["1", "", "-3"][..], "int64"),
            (&["1", "2.5"][..], "float64"),
            (&["1", "two"][..], "<U3"),
            (&["1", "9223372036854775809"][..], "uint64"),
            (&["-1", "9223372036854775809"][..], "<U19"),
            (&["-1.5", "1152921504606846977"][..], "<U19"),
            (&["-1.5", "1152921504606846976"][..], "float64"),
            (&["-1", "99999999999999999999", "0"][..], "<U20"),
            (&["1", "1e400"][..], "<U5"),
            (&["1", "-inf", "nan"][..], "float64"),
            (&["1", "NA", ""][..], "int64"),
            (&["NA", ""][..], "<U2"),
            (&["NA", "two"][..], "<U3"),
        ] {
            let found = infer_type(values.iter().copied()).map(Scalar::name);
            assert_eq!(found.as_deref(), Some(scalar), "{values:?}");
        }
    }
}
