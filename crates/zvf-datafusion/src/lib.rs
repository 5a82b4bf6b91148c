//! Zarr Vectors stores as tables of DataFusion.
//!
//! ```text
//! vertices   axes by name, attributes, object, chunk, row     a row for each stored vertex
//! objects    object, row, fragments, chunks, attributes       a row for each object of the index
//! groups     group, name, members, attributes                 a row for each group
//! members    group, object                                    a row for each member of a group
//! links      ends by chunk and row (and object), attributes   a row for each edge or face
//! levels     level, kinds, counts, shapes                     a row for each level
//! ```
//!
//! [`TableOptions`] add a GeoArrow column to vertices and objects, and to vertices the attributes of their fragments and of
//! the groups of their objects.
//!
//! A [`ZvfTable`] is one table at one level. Filter pushdown turns conditions on axes, attributes, objects and chunks into a
//! [`zvf::Query`]. Dynamic filters of joins restrict the objects while the plan runs. A scan is a `DataSourceExec` over a
//! `FileScanConfig` with a [`ZvfSource`], not a custom plan node: distributed engines know how to partition the former.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
//! use datafusion::prelude::SessionContext;
//!
//! let context = SessionContext::new();
//! zvf_datafusion::register(&context, zvf::OpenOptions::default());
//! let sql = format!("SELECT count(*) FROM zvf('{path}')");
//! let rows = context.sql(&sql).await?.collect().await?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Not here: the program (`zvf-sql`), and plans for other machines (`zvf-cluster`).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums of the engine have dozens of variants and get more: what is not known is left to the engine"
)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod columns;
mod filter;
mod function;
mod geometry;
mod handle;
mod join_filter;
mod joined;
mod limits;
mod links;
mod named;
mod provider;
mod read;
mod scan;
mod session;
mod sink;
mod source;
mod spatial;
mod statistics;
mod table;
mod values;

pub use function::ZvfFunction;
pub use handle::{StoreAddress, StoreHandle};
pub use provider::ZvfTable;
pub use scan::{Scan, Task};
pub use session::{StoreSchema, ZvfTableFactory, is_store_name, register, with_paths_as_tables};
pub use source::{ZvfSource, data_source};
pub use table::{TableName, TableOptions};
/// Options for opening stores.
pub use zvf::OpenOptions;
/// A number of things as `u64`.
pub use zvf::format::num::to_u64;

use std::error::Error as StdError;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::arrow::compute::cast;
use datafusion::error::DataFusionError;
use zvf::format::Class;

/// Wraps an error of zvf in an error of DataFusion.
fn external_error(error: impl Into<zvf::Error>) -> DataFusionError {
    DataFusionError::External(Box::new(error.into()))
}

/// Returns the line that an error is printed as, also by another process: that of the error of zvf, if it is one.
pub fn error_text(error: &DataFusionError) -> String {
    find_cause::<zvf::Error>(error).map_or_else(|| error.strip_backtrace(), ToString::to_string)
}

/// Returns the error that another process printed as [`error_text`].
pub fn error_from_text(text: &str) -> DataFusionError {
    let named = |class: &&Class| {
        let rest = text.strip_prefix(class.name());
        rest.is_some_and(|rest| rest.starts_with([',', ' ']))
    };
    match Class::ALL.iter().find(named) {
        Some(class) => external_error(zvf::Error::from_line(*class, text.to_owned())),
        None => DataFusionError::Execution(text.to_owned()),
    }
}

/// Gives a batch the names and types of `schema`.
///
/// # Errors
///
/// When a column cannot be cast.
pub fn cast_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, DataFusionError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Returns the first cause of type `T`.
pub fn find_cause<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref::<T>() {
            return Some(found);
        }
        next = match cause.downcast_ref::<DataFusionError>() {
            // A shared error is behind one more pointer.
            Some(DataFusionError::Shared(shared)) => Some(shared.as_ref()),
            _ => cause.source(),
        };
    }
    None
}

/// Returns the planning error for an invalid request.
fn bad_request(what: &str, expected: &str, found: &str) -> DataFusionError {
    DataFusionError::Plan(format!("{what}: expected {expected}, found {found}"))
}
