//! Attributes of links: a row of values per stored record.
//!
//! ```text
//! 0.9        link_attributes/<name>/<delta>/<offsets>                cell for cell
//! 0.6, 0.7   link_attributes/<name>/<delta>/<key>                    cell for cell, within chunks
//!            cross_chunk_link_attributes/<name>/<delta>/data         by the number of the stored row
//! ```

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use futures_util::future::try_join_all;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::to_u64;
use zvf_format::{Class, Expected};
use zvf_metadata::Dtype;
use zvf_metadata::arrays::{ArrayAttributes as _, Column as ColumnDoc, LinkColumnAttrs as Doc};
use zvf_store::{Caching, Cells, DenseArray, LevelNode, Listing};

use super::segment::missing_place_error;
use super::{LinkFamily, LinkRecords};
use crate::level::CellRows;
use crate::open::{list_nodes, refuse_stored, row_width};
use crate::{Categories, Column, Field, LevelReader};

/// One attribute of the links of a family; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// use zvf_store::Caching;
///
/// let links = level.links(zvf_format::key::Delta::SAME).await?.expect("the level has links");
/// let records = links.segments()[0].read(&[0], Caching::Once).await.remove(0)?;
/// let weight = links.attribute("weight").await?.expect("links have it");
/// let values = weight.values(0, &[0], &[records], Caching::Once).await.remove(0)?;
/// assert_eq!(values.map(|column| column.value(0, 0)), Some(zvf_model::Value::UInt(20)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LinkAttribute {
    inner: Arc<OpenedAttribute>,
}

#[derive(Debug)]
struct OpenedAttribute {
    name: String,
    family: LinkFamily,
    parts: Vec<Option<Half>>, // one a segment
    dtype: Dtype,
    width: u32,
    categories: Option<Categories>,
}

#[derive(Debug)]
enum Half {
    Cells(Cells),
    Rows(DenseArray),
}

impl LevelReader {
    /// Returns the names of the attributes of links, and whether the list is complete.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn link_attribute_names(&self) -> Result<Listing> {
        list_names(self.node()).await
    }
}

async fn list_names(node: &LevelNode) -> Result<Listing> {
    let mut listing = list_nodes(node, "link_attributes").await?;
    let between = list_nodes(node, "cross_chunk_link_attributes").await?;
    listing.names.extend(between.names);
    listing.names.sort_unstable();
    listing.names.dedup();
    Ok(Listing { complete: listing.complete && between.complete, ..listing })
}

impl LinkFamily {
    /// Returns the attribute of its links called `name`; `None` if no segment has it.
    ///
    /// # Errors
    ///
    /// When its documents lack information that is needed to read it, or contradict each other.
    #[boxed]
    pub async fn attribute(&self, name: &str) -> Result<Option<LinkAttribute>> {
        let (mut parts, mut form) = (Vec::with_capacity(self.segments().len()), None);
        for segment in self.segments() {
            let part = self.part(name, segment).await?;
            if let Some(part) = &part {
                let (path, attributes) = match part {
                    Half::Cells(cells) => (cells.path(), cells.attributes()),
                    Half::Rows(rows) => (rows.path(), rows.attributes()),
                };
                let place = |error: Error| error.at_array(path);
                let doc = Doc::parse(attributes.clone()).map_err(|error| place(error.into()))?;
                let dtype = doc.dtype().map_err(|error| place(error.into()))?;
                let width = row_width(doc.declared_columns()).map_err(place)?;
                let column = ColumnDoc::parse(attributes.clone());
                let dictionary = column.map_err(|error| place(error.into()))?.dictionary;
                let part_form =
                    (dtype, width, dictionary.as_ref().map(Categories::from_dictionary));
                if *form.get_or_insert_with(|| part_form.clone()) != part_form {
                    let error = Error::new(
                        Class::BadShape,
                        "values of a link attribute",
                        "one type, width and categories in all segments",
                        "another",
                    );
                    return Err(place(error));
                }
            }
            parts.push(part);
        }
        let Some((dtype, width, categories)) = form else { return Ok(None) };
        let (name, family) = (name.to_owned(), self.clone());
        let inner = OpenedAttribute { name, family, parts, dtype, width, categories };
        Ok(Some(LinkAttribute { inner: Arc::new(inner) }))
    }

    /// Returns all attributes of its links.
    ///
    /// # Errors
    ///
    /// As [`attribute`](Self::attribute), and when values are stored without their document.
    #[boxed]
    pub async fn attributes(&self) -> Result<Vec<LinkAttribute>> {
        let names = list_names(self.node()).await?.names;
        let opened = names.iter().map(|name| async move {
            let paths = self.segments().iter().filter_map(|part| self.part_path(name, part));
            let checks = paths.map(|path| async move {
                match self.node().node(&path).await? {
                    Some(_) => Ok(()),
                    None => refuse_stored(self.node(), &path).await,
                }
            });
            try_join_all(checks).await?;
            self.attribute(name).await
        });
        Ok(try_join_all(opened).await?.into_iter().flatten().collect())
    }

    /// Returns the path of the array with the values of a segment.
    fn part_path(&self, name: &str, segment: &super::LinkSegment) -> Option<String> {
        let delta = self.delta();
        if segment.is_flat() {
            return Some(format!("cross_chunk_link_attributes/{name}/{delta}"));
        }
        let below = format!("{}/links/{delta}", self.node().path());
        let rest = segment.array()?.path().as_str().strip_prefix(&below)?;
        Some(format!("link_attributes/{name}/{delta}{rest}"))
    }

    /// Returns the array with the values of a segment.
    async fn part(&self, name: &str, segment: &super::LinkSegment) -> Result<Option<Half>> {
        let Some(path) = self.part_path(name, segment) else { return Ok(None) };
        Ok(match segment.is_flat() {
            true => self.node().dense(&path).await?.map(Half::Rows),
            false => self.node().cells(&path).await?.map(Half::Cells),
        })
    }
}

impl LinkAttribute {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the type of a stored value.
    pub fn dtype(&self) -> Dtype {
        self.inner.dtype
    }

    /// Returns the number of values per row.
    pub fn width(&self) -> u32 {
        self.inner.width
    }

    /// Returns the categories, if the attribute is dictionary-encoded.
    pub fn categories(&self) -> Option<&Categories> {
        self.inner.categories.as_ref()
    }

    /// Returns `column` with the metadata of the attribute.
    pub fn field(&self, column: Column) -> Field {
        Field { categories: self.inner.categories.clone(), ..Field::new(self.name(), column) }
    }

    /// Returns the values of `records`, which were read from the cells at `places` of the segment
    /// with that number; `None` if the segment has no values.
    ///
    /// Each answer has its own error: values that cannot be read, a count that differs from that of
    /// the records, or invalid codes.
    #[boxed]
    pub async fn values(
        &self,
        segment: usize,
        places: &[usize],
        records: &[LinkRecords],
        caching: Caching,
    ) -> Vec<Result<Option<Column>>> {
        let mut columns = self.stored_values(segment, places, records, caching).await;
        if let Some(categories) = self.categories() {
            for found in &mut columns {
                if let Ok(Some(column)) = found
                    && let Err(error) = categories.present(column)
                {
                    let path = format!(
                        "{}/link_attributes/{}",
                        self.inner.family.node().path(),
                        self.name()
                    );
                    *found = Err(Error::from(error).at_array(path));
                }
            }
        }
        columns
    }

    async fn stored_values(
        &self,
        segment: usize,
        places: &[usize],
        records: &[LinkRecords],
        caching: Caching,
    ) -> Vec<Result<Option<Column>>> {
        let none = || places.iter().map(|_| Ok(None)).collect();
        match self.inner.parts.get(segment) {
            Some(Some(Half::Rows(rows))) => self.read_by_row(rows, records).await,
            Some(Some(Half::Cells(cells))) => {
                let listed = match self.inner.family.segments().get(segment) {
                    Some(segment) => segment.cells().await,
                    None => return none(),
                };
                match listed {
                    Ok(listed) => {
                        let keys: Vec<Option<ChunkKey>> =
                            places.iter().map(|place| listed.source(*place)).collect();
                        self.read_by_cell(cells, &keys, records, caching).await
                    }
                    Err(error) => places.iter().map(|_| Err(error.clone())).collect(),
                }
            }
            Some(None) | None => none(),
        }
    }

    async fn read_by_cell(
        &self,
        cells: &Cells,
        keys: &[Option<ChunkKey>],
        records: &[LinkRecords],
        caching: Caching,
    ) -> Vec<Result<Option<Column>>> {
        let present_keys: Vec<ChunkKey> = keys.iter().flatten().copied().collect();
        let rows = CellRows { cells, dtype: self.inner.dtype, width: self.inner.width };
        let mut columns = rows.read_all(&present_keys, caching).await.into_iter();
        let answers = keys.iter().zip(records).map(|(key, records)| {
            let key = key.as_ref().ok_or_else(missing_place_error)?;
            let place = |error: Error| error.at_array(cells.path()).at_chunk(key);
            let column = match columns.next().transpose()?.flatten() {
                Some(column) => column,
                None => Column::empty(self.inner.dtype, self.inner.width)
                    .map_err(|error| place(error.into()))?,
            };
            let (expected, all) = (to_u64(records.len()), to_u64(column.len()));
            if all == expected {
                return Ok(Some(column));
            }
            let what = "rows of a link attribute";
            Err(place(Error::new(Class::CountMismatch, what, expected, all)))
        });
        answers.collect()
    }

    async fn read_by_row(
        &self,
        rows: &DenseArray,
        records: &[LinkRecords],
    ) -> Vec<Result<Option<Column>>> {
        let all = match rows.read_all().await {
            Ok(bytes) => Column::new(rows.dtype(), self.inner.width, bytes).at_array(rows.path()),
            Err(error) => Err(error),
        };
        let answers = records.iter().map(|records| {
            let all = all.as_ref().map_err(Clone::clone)?;
            let part = (0..records.len()).map(|i| records.stored_row(i));
            gather_rows(all, part).map(Some).at_array(rows.path())
        });
        answers.collect()
    }
}

/// Gathers rows of `column`, which must all exist.
fn gather_rows(column: &Column, rows: impl Iterator<Item = u64>) -> Result<Column> {
    let mut part = crate::ColumnBuilder::empty_like(column);
    for row in rows {
        if row >= to_u64(column.len()) {
            let expected = to_u64(column.len());
            return Err(Error::new(
                Class::OutOfBounds,
                "row of a link attribute",
                Expected::AtMost(i128::from(expected) - 1),
                row,
            ));
        }
        part.push_row(column, zvf_format::num::saturating_usize(row));
    }
    Ok(part.finish())
}
