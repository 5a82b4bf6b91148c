//! Contents of a store outside its levels: shapes given by coefficients, and headers of other
//! formats.
//!
//! ```text
//! parametric                         types: a number, a name, names of coefficients
//! parametric/objects                 rows of float64: type, coefficients, NaN behind them
//! parametric/names                   the name of each object (newlines between them until 0.8.0)
//! parametric/object_attributes/<n>   values by object
//! parametric/groups, group_attributes/<n>
//! headers/<format>                   a group whose attributes are the header
//! ```

use async_recursion::async_recursion as boxed;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::num::usize_from_u32;
use zvf_metadata::Object;
use zvf_metadata::arrays::{ArrayAttributes as _, ParametricArray, ParametricTypes};
use zvf_store::{DenseArray, Listing, Store};

use crate::open::row_width;
use crate::{Column, Groups, RowAttribute};

/// The parametric objects of a store; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// let parametric = zvf_model::Parametric::open(&store).await?.expect("the store has some");
/// let shapes = parametric.shapes().await?;
/// assert_eq!(shapes[0].type_name.as_deref(), Some("sphere"));
/// assert_eq!(shapes[0].coefficients, [1.0, 2.0, 3.0, 0.5]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Parametric {
    store: Store,
    types: ParametricTypes,
    objects: Option<DenseArray>,
}

/// One shape.
///
/// ```
/// let plane = zvf_model::Shape {
///     type_id: 0,
///     type_name: Some("plane".into()),
///     name: "floor".into(),
///     coefficients: vec![0.0, 0.0, 1.0, -25.5],
///     coefficient_names: ["A", "B", "C", "D"].map(Into::into).into(),
/// };
/// assert_eq!(plane.coefficients.len(), plane.coefficient_names.len());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The number of its type.
    pub type_id: i64,
    /// The name of its type; `None` if the store does not state it.
    pub type_name: Option<String>,
    /// Its own name; empty if it has none.
    pub name: String,
    /// Its coefficients, without those that the writer omitted at the end.
    pub coefficients: Vec<f64>,
    /// The names of the coefficients, if the store states them.
    pub coefficient_names: Vec<String>,
}

impl Parametric {
    /// Opens the parametric objects of `store`; `None` if it has none.
    ///
    /// # Errors
    ///
    /// When their documents are invalid.
    #[boxed]
    pub async fn open(store: &Store) -> Result<Option<Self>> {
        let Some(group) = store.nodes().group(GROUP).await? else { return Ok(None) };
        let types = ParametricTypes::parse(group.attributes).at_array(GROUP)?;
        let objects = store.nodes().dense("parametric/objects").await?;
        Ok(Some(Self { store: store.clone(), types, objects }))
    }

    /// Returns the types that the store declares.
    pub fn types(&self) -> &ParametricTypes {
        &self.types
    }

    /// Returns all shapes, in order.
    ///
    /// # Errors
    ///
    /// When they cannot be read, a type is not an integer, or `num_objects` or the number of names
    /// differs from the number of rows.
    #[boxed]
    pub async fn shapes(&self) -> Result<Vec<Shape>> {
        let Some(objects) = &self.objects else { return Ok(Vec::new()) };
        let place = |error: Error| error.at_array(objects.path());
        let width = objects.shape().get(1).copied().unwrap_or(1); // one axis: the type without coefficients
        let width = row_width(Some(width)).map_err(place)?;
        let rows = Column::new(objects.dtype(), width, objects.read_all().await?)
            .map_err(|error| place(error.into()))?;
        let doc = ParametricArray::parse(objects.attributes().clone())
            .map_err(|error| place(error.into()))?;
        if let Some(declared) = doc.num_objects.filter(|declared| *declared != objects.len()) {
            return Err(place(Error::new(
                Class::CountMismatch,
                "num_objects, beside the rows",
                objects.len(),
                declared,
            )));
        }
        let names = self.names(rows.len()).await?;
        let shapes = (0..rows.len()).zip(names).map(|(row, name)| {
            let mut numbers: Vec<f64> =
                (0..usize_from_u32(width)).map_while(|c| rows.float(row, c)).collect();
            let type_id = as_integer(numbers.first().copied()).ok_or_else(|| {
                let found = numbers.first().copied().unwrap_or(f64::NAN);
                place(Error::new(
                    Class::BadTag,
                    "type of a parametric object",
                    "a whole number",
                    found,
                ))
            })?;
            numbers.remove(0);
            while numbers.last().is_some_and(|x| x.is_nan()) {
                numbers.pop();
            }
            let shape_type = self.types.find(type_id);
            Ok(Shape {
                type_id,
                type_name: shape_type.map(|shape_type| shape_type.name.clone()),
                name,
                coefficients: numbers,
                coefficient_names: shape_type
                    .map(|shape_type| shape_type.coefficients.clone())
                    .unwrap_or_default(),
            })
        });
        shapes.collect()
    }

    /// Returns the groups of shapes; `None` if there are none.
    ///
    /// # Errors
    ///
    /// When their document cannot be used.
    #[boxed]
    pub async fn groups(&self) -> Result<Option<Groups>> {
        Groups::open_parametric(&self.store).await
    }

    /// Returns the attribute of shapes called `name`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// When its document cannot be used.
    #[boxed]
    pub async fn object_attribute(&self, name: &str) -> Result<Option<RowAttribute>> {
        let array = self.store.nodes().dense(&format!("{GROUP}/object_attributes/{name}")).await?;
        array.map(|array| RowAttribute::new(name, array)).transpose()
    }

    /// Returns the attribute of groups of shapes called `name`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// When its document cannot be used.
    #[boxed]
    pub async fn group_attribute(&self, name: &str) -> Result<Option<RowAttribute>> {
        let array = self.store.nodes().dense(&format!("{GROUP}/group_attributes/{name}")).await?;
        array.map(|array| RowAttribute::new(name, array)).transpose()
    }

    /// Returns the names of the attributes of shapes, and of their groups.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn attribute_names(&self) -> Result<[Listing; 2]> {
        let objects = self.store.nodes().children("parametric/object_attributes").await?;
        Ok([objects, self.store.nodes().children("parametric/group_attributes").await?])
    }

    /// Returns one name for each of `count` shapes; empty names if the store has none.
    async fn names(&self, count: usize) -> Result<Vec<String>> {
        let names = match self.store.nodes().group(NAMES).await {
            Ok(Some(_)) => self.joined_names().await?,
            Ok(None) | Err(_) => match self.store.nodes().rows(NAMES).await? {
                Some(rows) => {
                    let rows = rows.range(0..rows.count().await?).await?;
                    Some(rows.iter().map(|row| text(row)).collect::<Result<Vec<_>, _>>()?)
                }
                None => None,
            },
        };
        let Some(names) = names else { return Ok(vec![String::new(); count]) };
        // A text without a newline is one name, or none at all.
        if names.len() == count || (count == 0 && names == [""]) {
            return Ok(names);
        }
        Err(Error::new(
            Class::CountMismatch,
            "names of parametric objects",
            zvf_format::num::to_u64(count),
            names.len(),
        )
        .at_array(NAMES))
    }

    /// Returns the names in the form of the oldest versions.
    async fn joined_names(&self) -> Result<Option<Vec<String>>> {
        let Some(data) = self.store.nodes().dense("parametric/names/data").await? else {
            return Ok(None);
        };
        let bytes = data.read_all().await?;
        Ok(Some(text(&bytes)?.split('\n').map(str::to_owned).collect()))
    }
}

/// Returns the formats whose headers `store` contains, and whether the list is complete.
///
/// # Errors
///
/// When the backend fails.
#[boxed]
pub async fn header_names(store: &Store) -> Result<Listing> {
    store.nodes().children("headers").await
}

/// Returns the header of `format` in `store`, unchanged; `None` if there is none.
///
/// # Errors
///
/// When its document cannot be read.
#[boxed]
pub async fn header(store: &Store, format: &str) -> Result<Option<Object>> {
    let group = store.nodes().group(&format!("headers/{format}")).await?;
    Ok(group.map(|group| group.attributes))
}

fn as_integer(number: Option<f64>) -> Option<i64> {
    let number = number.filter(|x| x.fract() == 0.0 && x.abs() < TWO_TO_53)?;
    format!("{number:.0}").parse().ok()
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_not_utf8| {
        Error::new(Class::Encoding, "name of a parametric object", "UTF-8", "other bytes")
            .at_array(NAMES)
    })
}

const GROUP: &str = "parametric";
const NAMES: &str = "parametric/names";
const TWO_TO_53: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_integers() {
        for (number, expected) in [
            (Some(2.0), Some(2)),
            (Some(-0.0), Some(0)),
            (Some(77.0), Some(77)),
            (Some(0.5), None),
            (Some(f64::NAN), None),
            (Some(1e300), None),
            (None, None),
        ] {
            assert_eq!(as_integer(number), expected, "{number:?}");
        }
    }
}
