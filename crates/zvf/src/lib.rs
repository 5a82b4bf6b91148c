//! Zarr Vectors stores in Rust: the main crate, which re-exports the others.
//!
//! A store holds points, lines, polylines, streamlines, graphs, skeletons or meshes in spatial
//! chunks, at several levels of detail. [`open`] a store, local or remote, and query it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), zvf::Error> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
//! use zvf::{Bounds, OpenOptions, Query};
//!
//! let reader = zvf::open(path, OpenOptions::default()).await?;
//! let answer = reader.run(&Query::all().in_region(Bounds::new(&[0.0, 0.0], &[9.0, 9.0])?)).await?;
//! assert_eq!(answer.batch.positions().float(0, 0), Some(1.0));
//! # Ok(())
//! # }
//! ```
//!
//! If you have no async runtime, use [`blocking`], which has the same functions in blocking form.
//!
//! # Parts
//!
//! | path | content | crate |
//! | --- | --- | --- |
//! | [`format`](mod@format) | bytes and views: fragments, manifests, links, keys | `zvf-format` |
//! | [`metadata`] | the JSON documents of a store | `zvf-metadata` |
//! | [`store`], [`Store`], [`OpenOptions`] | reading bytes by name: backends, codecs, layouts, caches | `zvf-store` |
//! | [`model`], [`LevelReader`], [`Batch`] | rows, ids, links and columns of a level | `zvf-model` |
//! | [`query`], [`Reader`], [`Query`] | queries and answers | `zvf-query` |
//! | [`convert`], [`export`] | writing answers to files of other formats, and reading such files | `zvf-convert`, `zvf-jobs` |
//! | [`write`](mod@write), [`create`], [`ingest`] | stores from geometry; stores from files, in one process or many | `zvf-write`, `zvf-jobs` |
//! | [`pyramid`] | coarser levels of a store | `zvf-pyramid` |
//! | [`render`](mod@render) | pictures of answers | `zvf-render` |
//! | [`edit`] | transactions on stores: operations, history, undo | `zvf-edit` |
//! | [`validate`](mod@validate) | checks a store against every rule of the format | `zvf-validate` |
//! | [`repair`] | repairs that need no guessing | `zvf-repair` |
//! | [`migrate`] | rewrites stores of older formats in the current one | `zvf-migrate` |
//! | [`tensor`] | dense arrays in one file, and stores packed into one file | `zvf-tensor` |
//! | [`tasks`] | work divided between processes: plan, run, finish | `zvf-jobs` |
//! | [`inspect`], [`blob`] | human-readable contents of a store, a cell or a blob | `zvf-jobs` |
//! | [`question`] | the parts of a query as text | `zvf-jobs` |
//! | [`clean`] | removes leftovers of killed commands | `zvf-jobs` |
//! | [`fetch`] | copies precomputed folders from URLs to this machine | `zvf-jobs` |
//! | [`publish`] | atomic publishing of files and folders | `zvf-publish` |
//! | [`tet`], [`b2nd`] | tensor files and packs, Caterva and B2ND frames as views | `zvf-tet`, `zvf-b2nd` |
//!
//! # Features
//!
//! `local` and `query` are enabled by default. `http`, `s3`, `gcs` and `azure` each add a backend.
//! `map` adds opt-in memory-mapped reads, `convert` files of other formats, `arrow` record batches
//! and Arrow files, `h5ad` tables of cells (`.h5ad`), `draco` Draco streams of other programs,
//! `serde` serializable queries, `write` creating stores, `pyramid` coarser levels, `reference` the
//! levels of the reference implementation, `edit` transactions, `render` pictures, `validate` the
//! rules of the format, `jobs` whole jobs (create, export, inspect, tasks), `repair` repairs,
//! `migrate` migration of older stores, `tensor` dense arrays in one file and packed stores,
//! `more-codecs` rarely used steps of codec chains, and `fast-codecs` faster Blosc decoding with
//! some unsafe code. A feature adds items and changes none.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod blocking;
mod exit_code;

use async_recursion::async_recursion as boxed;
pub use exit_code::exit_code;
pub use zvf_b2nd as b2nd;
#[cfg(feature = "edit")]
pub use zvf_edit as edit;
pub use zvf_error::{
    Error, error_text, format_count, group_digits, io_class, join_causes, round_digits,
};
pub use zvf_format as format;
pub use zvf_metadata as metadata;
pub use zvf_model as model;
pub use zvf_model::{
    Batch, BatchPart, Bounds, Categories, Column, Elements, Field, Kind, LevelId, LevelReader,
    ObjectId, Parts, Value,
};
pub use zvf_publish as publish;
pub use zvf_store as store;
pub use zvf_store::{IoStats, Key, Notice, OpenOptions, Store, Timeouts};

#[cfg(feature = "convert")]
pub use zvf_convert as convert;
#[cfg(feature = "jobs")]
pub use zvf_jobs::{blob, clean, create, export, fetch, ingest, inspect, question, tasks};
#[cfg(all(unix, feature = "map"))]
pub use zvf_map as map;
#[cfg(feature = "migrate")]
pub use zvf_migrate as migrate;
#[cfg(feature = "pyramid")]
pub use zvf_pyramid as pyramid;
#[cfg(feature = "query")]
pub use zvf_query as query;
#[cfg(feature = "query")]
pub use zvf_query::{
    Answer, AttributeStatistics, BadQuery, Columns, Counts, FoundObject, LevelRule, Missing, Mode,
    Order, Query, QueryPlan, QueryStats, Reader, Statistics, Summary, UnknownIds, predicate,
    region,
};
#[cfg(feature = "render")]
pub use zvf_render as render;
#[cfg(feature = "repair")]
pub use zvf_repair as repair;
#[cfg(feature = "tensor")]
pub use zvf_tensor as tensor;
pub use zvf_tet as tet;
#[cfg(feature = "validate")]
pub use zvf_validate as validate;
#[cfg(feature = "write")]
pub use zvf_write as write;

/// Opens the store at `address`, a path or a URL, for queries.
///
/// A remote store needs the caller's tokio runtime, with timers and I/O.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zvf::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// let reader = zvf::open(path, zvf::OpenOptions::default()).await?;
/// assert_eq!(reader.store().version().to_string(), "0.9.2");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// When there is no store, this build cannot read it, or the backend fails.
#[cfg(feature = "query")]
#[boxed]
pub async fn open(address: &str, options: OpenOptions) -> Result<Reader, Error> {
    Ok(Reader::new(open_store(address, options).await?))
}

/// Opens the store at `address` without a query engine: for its documents, nodes and levels.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zvf::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// let store = zvf::open_store(path, zvf::OpenOptions::default()).await?;
/// assert_eq!(store.level_numbers(), [0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`open`].
#[boxed]
pub async fn open_store(address: &str, options: OpenOptions) -> Result<Store, Error> {
    let opened = Store::open(address, options).await;
    // The opener of a versioned repository reports a missing feature itself.
    let is_of_versions = address.split_once("://").is_some_and(|(scheme, _)| scheme.contains('+'));
    opened.map_err(|error| match (error.class(), error.key()) {
        (format::Class::NotFound, None) if is_of_versions => error,
        (format::Class::NotFound, None | Some("zarr.json")) => {
            error.or_hint(|| Some("give the folder of the store, which contains zarr.json".into()))
        }
        (format::Class::BadTag, Some("zarr.json")) => {
            error.or_hint(|| Some("is this the root of a Zarr Vectors store?".into()))
        }
        _ => error,
    })
}
