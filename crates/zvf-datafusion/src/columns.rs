//! Columns of the tables: names, types, and the origin of their values.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use zvf::convert::attribute_array;
use zvf::metadata::Dtype;
use zvf::model::{LevelReader, RowAttribute};
use zvf::predicate::Scope;
use zvf::{Column, Kind, LevelId, Reader};

use crate::read::levels;
use crate::table::{TableName, TableOptions};
use crate::{bad_request, external_error, geometry};

/// The origin of the values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A coordinate, by the number of its axis; `is_named` if a condition can refer to it by name.
    Axis { axis: usize, is_named: bool },
    /// An attribute of the rows: of vertices, objects, groups or links.
    Attribute(String),
    /// The id of the object, or of the object at one end of a link.
    Object(usize),
    /// The key of the chunk, or of the chunk at one end of a link.
    Chunk(usize),
    /// The row in the chunk, or in the chunk at one end of a link.
    Row(usize),
    /// The point or line in GeoArrow format.
    Geometry,
    /// An attribute of the fragment that a vertex is in.
    FragmentAttribute(String),
    /// The numbers of the groups that the object of a vertex is in.
    Groups,
    /// The names of these groups.
    GroupNames,
    /// An attribute of these groups.
    GroupAttribute(String),
    /// A column that the table defines itself, such as `row` of objects.
    Own,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableColumn {
    pub(crate) field: Field,
    pub(crate) origin: Origin,
}

/// The columns of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableLayout {
    pub(crate) columns: Vec<TableColumn>,
}

impl TableLayout {
    /// Reads the columns of a table.
    pub(crate) async fn read(reader: &Reader, options: TableOptions) -> Result<Self> {
        let TableOptions { table, kind, geometry, fragment_attributes, group_attributes, .. } =
            options;
        if table == TableName::Levels && !(geometry || fragment_attributes || group_attributes) {
            return Self::levels();
        }
        let opened = open_level(reader, options).await?;
        let mut layout = Self::read_default_columns(&opened, table, kind).await?;
        layout.push_joined(&opened, options).await?;
        if geometry {
            layout.push_geometry(&opened, table, kind)?;
        }
        Ok(layout)
    }

    /// Reads the columns that a table has by default.
    async fn read_default_columns(
        opened: &LevelReader,
        table: TableName,
        kind: Option<Kind>,
    ) -> Result<Self> {
        match table {
            TableName::Vertices => Self::vertices(opened).await,
            TableName::Objects => Self::objects(opened).await,
            TableName::Groups => Self::groups(opened).await,
            TableName::Links => Self::links(opened, kind).await,
            TableName::Members => Ok(Self::members()),
            TableName::Levels => Self::levels(),
        }
    }

    /// Returns the Arrow schema.
    pub(crate) fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|column| column.field.clone());
        Arc::new(Schema::new(fields.collect::<Fields>()))
    }

    /// Returns the columns `names`, in that order.
    pub(crate) fn project(&self, names: &[String]) -> Result<Self> {
        let find = |name: &String| {
            self.find(name)
                .cloned()
                .ok_or_else(|| bad_request("a column", "one that the table has", name))
        };
        Ok(Self { columns: names.iter().map(find).collect::<Result<_>>()? })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.field.name() == name)
    }

    /// Returns whether a column has an origin that passes `test`.
    pub(crate) fn has(&self, test: impl Fn(&Origin) -> bool) -> bool {
        self.columns.iter().any(|column| test(&column.origin))
    }

    /// Returns the names of the attributes that are columns.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().filter_map(|column| match &column.origin {
            Origin::Attribute(name) => Some(name.as_str()),
            _ => None,
        })
    }

    pub(crate) fn push(&mut self, name: &str, data_type: DataType, nullable: bool, origin: Origin) {
        self.columns.push(TableColumn { field: Field::new(name, data_type, nullable), origin });
    }

    /// Returns a layout of columns that the table defines itself.
    fn from_own(columns: &[(&str, DataType, bool)]) -> Self {
        let mut layout = Self::default();
        for (name, data_type, nullable) in columns {
            layout.push(name, data_type.clone(), *nullable, Origin::Own);
        }
        layout
    }

    /// Adds an attribute, under `scope.name` if another column has its name.
    fn push_attribute(&mut self, scope: &str, name: &str, field: &Field, nullable: bool) {
        let is_taken = self.find(name).is_some();
        let column = if is_taken { format!("{scope}.{name}") } else { name.to_owned() };
        let field = field.clone().with_name(column);
        let nullable = nullable || field.is_nullable();
        let origin = Origin::Attribute(name.to_owned());
        self.columns.push(TableColumn { field: field.with_nullable(nullable), origin });
    }

    /// Adds the geometry of vertices as points, or of objects as lines.
    fn push_geometry(
        &mut self,
        level: &LevelReader,
        table: TableName,
        kind: Option<Kind>,
    ) -> Result<()> {
        let kind = kind.or_else(|| level.kinds().first().copied());
        let field = match table {
            TableName::Vertices => geometry::point_field(level.axes())?,
            TableName::Objects if kind.is_some_and(Kind::is_chain) => {
                geometry::line_field(level.axes())?
            }
            TableName::Objects
            | TableName::Groups
            | TableName::Members
            | TableName::Links
            | TableName::Levels => {
                let expected = "the vertices of a level, or objects that are lines";
                return Err(bad_request("a column of geometry", expected, table.word()));
            }
        };
        if self.find(geometry::NAME).is_some() {
            let expected = "no attribute of that name";
            return Err(bad_request("a column of geometry", expected, "one"));
        }
        self.columns.push(TableColumn { field, origin: Origin::Geometry });
        Ok(())
    }

    async fn vertices(level: &LevelReader) -> Result<Self> {
        let mut attributes = Vec::new();
        for name in attribute_names(level, Scope::Vertex).await? {
            let found = level.attribute(&name).await.map_err(external_error)?;
            let Some(found) = found else { continue };
            let empty = empty_column(found.dtype(), found.width())?;
            attributes.push((name, arrow_field(&found.field(empty))?));
        }
        let position = empty_column(level.dtype(), 1)?;
        let position = arrow_field(&zvf::Field::new("position", position))?;
        let mut layout = Self::default();
        for (axis, declared) in level.store().root().axes().iter().take(level.axes()).enumerate() {
            let is_named = !attributes.iter().any(|(name, _)| *name == declared.name);
            let origin = Origin::Axis { axis, is_named };
            layout.push(&declared.name, position.data_type().clone(), false, origin);
        }
        if level.objects().await.map_err(external_error)?.is_some() {
            layout.push("object", DataType::Int64, true, Origin::Object(0));
        }
        if !level.node().meta().is_additive() {
            // Nullable for INSERT: the store chooses chunk and row.
            layout.push("chunk", DataType::Utf8, true, Origin::Chunk(0));
            layout.push("row", DataType::UInt32, true, Origin::Row(0));
        }
        for (name, field) in &attributes {
            layout.push_attribute("vertex", name, field, false);
        }
        Ok(layout)
    }

    async fn objects(level: &LevelReader) -> Result<Self> {
        if level.objects().await.map_err(external_error)?.is_none() {
            return Err(missing_table_error(level, "objects"));
        }
        let mut layout = Self::default();
        layout.push("object", DataType::Int64, false, Origin::Object(0));
        layout.push("row", DataType::UInt64, false, Origin::Own);
        layout.push("fragments", DataType::UInt64, true, Origin::Own);
        layout.push("chunks", DataType::UInt64, true, Origin::Own);
        for attribute in level.object_attributes().await.map_err(external_error)? {
            layout.push_attribute("object", attribute.name(), &row_field(&attribute)?, true);
        }
        Ok(layout)
    }

    async fn groups(level: &LevelReader) -> Result<Self> {
        let mut layout = Self::from_own(&[
            ("group", DataType::UInt64, false),
            ("name", DataType::Utf8, true),
            ("members", DataType::UInt64, false),
        ]);
        for attribute in level.group_attributes().await.map_err(external_error)? {
            layout.push_attribute("group", attribute.name(), &row_field(&attribute)?, true);
        }
        Ok(layout)
    }

    fn members() -> Self {
        Self::from_own(&[("group", DataType::UInt64, false), ("object", DataType::Int64, false)])
    }

    fn levels() -> Result<Self> {
        let schema = levels::table(&[])?.schema();
        let own =
            |field: &Arc<Field>| TableColumn { field: field.as_ref().clone(), origin: Origin::Own };
        Ok(Self { columns: schema.fields().iter().map(own).collect() })
    }

    async fn links(level: &LevelReader, kind: Option<Kind>) -> Result<Self> {
        let kind = kind.or_else(|| level.kinds().first().copied());
        if !kind.is_some_and(Kind::has_links) {
            return Err(missing_table_error(level, "links"));
        }
        if level.node().meta().is_additive() {
            let what = "a level that stands alone";
            return Err(bad_request("the links of a level", what, "one that adds to others"));
        }
        let family = level.links(zvf::format::key::Delta::SAME).await.map_err(external_error)?;
        let width = family.as_ref().map_or(2, |family| family.link_width());
        let has_objects = level.objects().await.map_err(external_error)?.is_some();
        let mut layout = Self::default();
        for end in 0..width {
            let name = end_name(end, width);
            layout.push(&format!("{name}_chunk"), DataType::Utf8, false, Origin::Chunk(end));
            layout.push(&format!("{name}_row"), DataType::UInt32, false, Origin::Row(end));
            if has_objects {
                layout.push(&format!("{name}_object"), DataType::Int64, true, Origin::Object(end));
            }
        }
        let Some(family) = family else { return Ok(layout) };
        for name in level.link_attribute_names().await.map_err(external_error)?.names {
            let Some(attribute) = family.attribute(&name).await.map_err(external_error)? else {
                continue;
            };
            let empty = empty_column(attribute.dtype(), attribute.width())?;
            layout.push_attribute("link", &name, &arrow_field(&attribute.field(empty))?, false);
        }
        Ok(layout)
    }
}

/// Returns the prefix of the columns of one end of a link.
fn end_name(end: usize, width: usize) -> String {
    match (end, width) {
        (0, 2) => "source".to_owned(),
        (1, 2) => "target".to_owned(),
        _ => format!("corner{}", end + 1),
    }
}

/// Opens the geometry of a kind at a level, by default its first kind.
pub(crate) async fn open_level(reader: &Reader, options: TableOptions) -> Result<LevelReader> {
    let level = LevelId(options.level);
    let opened = match options.kind {
        Some(kind) => reader.level_of_kind(level, kind).await,
        None => reader.level(level).await,
    };
    opened.map_err(external_error)
}

/// Returns the error for a table that the level does not have.
fn missing_table_error(level: &LevelReader, what: &str) -> DataFusionError {
    let kinds: Vec<String> = level.kinds().iter().map(ToString::to_string).collect();
    let table = format!("the table {what} of level {}", level.level().0);
    bad_request(&table, &format!("a level with {what}"), &format!("one of {}", kinds.join(", ")))
}

/// Returns the names of the attributes of vertices or fragments; where an answer merges several
/// levels, those that all have.
pub(crate) async fn attribute_names(level: &LevelReader, scope: Scope) -> Result<Vec<String>> {
    let mut names = level_names(level, scope).await?;
    if level.node().meta().is_additive() {
        let chain = LevelReader::chain(level.store(), level.level()).await;
        for level in &chain.map_err(external_error)? {
            let theirs = level_names(level, scope).await?;
            names.retain(|name| theirs.contains(name));
        }
    }
    Ok(names)
}

/// Returns the names of the attributes of vertices or fragments of one level.
async fn level_names(level: &LevelReader, scope: Scope) -> Result<Vec<String>> {
    let names = match scope {
        Scope::Fragment => level.fragment_attribute_names().await,
        _ => level.attribute_names().await,
    };
    Ok(names.map_err(external_error)?.names)
}

/// Returns a column without rows.
pub(crate) fn empty_column(dtype: Dtype, width: u32) -> Result<Column> {
    let bad = |error: zvf::model::BadColumn| bad_request("a column", "a type", &error.to_string());
    Column::empty(dtype, width).map_err(bad)
}

/// Returns the Arrow field of a column.
pub(crate) fn arrow_field(field: &zvf::Field) -> Result<Field> {
    Ok(attribute_array(field).map_err(external_error)?.0)
}

/// Returns the Arrow field of an attribute of objects or groups.
pub(crate) fn row_field(attribute: &RowAttribute) -> Result<Field> {
    arrow_field(&attribute.field(empty_column(attribute.dtype(), attribute.width())?))
}
