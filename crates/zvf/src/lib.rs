//! Zarr Vectors stores, from Rust: the front door.
//!
//! A store holds points, lines, polylines, streamlines, graphs, skeletons or meshes in spatial chunks,
//! at several levels of detail. [`open`] one, wherever it lies, and ask it:
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
//! Without an async runtime of your own, use [`blocking`]: the same, and it returns when it is done.
//!
//! # Parts
//!
//! | path | what | crate |
//! | --- | --- | --- |
//! | [`format`](mod@format) | bytes and views: fragments, manifests, links, keys | `zvf-format` |
//! | [`metadata`] | the JSON documents of a store | `zvf-metadata` |
//! | [`store`], [`Store`], [`OpenOptions`] | names and bytes: backends, codecs, layouts, caches | `zvf-store` |
//! | [`model`], [`LevelReader`], [`Batch`] | rows, ids, links and columns of a level | `zvf-model` |
//! | [`query`], [`Reader`], [`Query`] | questions and answers | `zvf-query` |
//! | [`convert`], [`export`] | answers as files of other formats, and such files as geometry | `zvf-convert`, `zvf-jobs` |
//! | [`write`](mod@write), [`create`], [`ingest`] | geometry to stores; files to stores, in one process or many | `zvf-write`, `zvf-jobs` |
//! | [`pyramid`] | coarser levels of a store | `zvf-pyramid` |
//! | [`render`](mod@render) | pictures of answers | `zvf-render` |
//! | [`edit`] | transactions on stores: operations, history, undo | `zvf-edit` |
//! | [`validate`](mod@validate) | every rule of the format, and what breaks it | `zvf-validate` |
//! | [`repair`] | what can be repaired without guessing | `zvf-repair` |
//! | [`migrate`] | stores of older formats as new ones | `zvf-migrate` |
//! | [`tensor`] | dense arrays in one file, and stores packed into one | `zvf-tensor` |
//! | [`tasks`] | work that many processes divide: plan, run, finish | `zvf-jobs` |
//! | [`inspect`], [`blob`] | what a store, a cell or a single blob holds, for people | `zvf-jobs` |
//! | [`clean`] | what killed commands left beside a store | `zvf-jobs` |
//! | [`fetch`] | precomputed folders behind URLs, copied to this machine | `zvf-jobs` |
//! | [`publish`] | files and folders that appear at once | `zvf-publish` |
//! | [`tet`], [`b2nd`] | tensor files and packs, Caterva and B2ND frames as views | `zvf-tet`, `zvf-b2nd` |
//!
//! # Features
//!
//! `local` and `query` are on by default; `http`, `s3`, `gcs` and `azure` each add a backend, `map`
//! opt-in mapped reads, `convert` files of other formats, `arrow` record batches and files of them,
//! `h5ad` tables of cells (`.h5ad`), `draco` Draco streams of other programs, `serde` queries that can be stored and sent,
//! `write` what makes stores, `pyramid` their coarser levels, `reference` those of the reference implementation,
//! `edit` transactions, `render` pictures, `validate` the rules of the format,
//! `jobs` whole jobs (create, export, inspect, tasks), `repair` what can be repaired, `migrate` what brings older stores along, `tensor` dense arrays in one
//! file and packed stores, `more-codecs` steps of codec chains that few writers use, `fast-codecs` faster decoding of
//! Blosc with some code that is not safe Rust. A feature adds items and changes none.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod blocking;
mod exit_code;

use async_recursion::async_recursion as boxed;
pub use exit_code::exit_code;
pub use zvf_b2nd as b2nd;
#[cfg(feature = "edit")]
pub use zvf_edit as edit;
pub use zvf_error::{Error, io_class, join_causes};
pub use zvf_format as format;
pub use zvf_metadata as metadata;
pub use zvf_model as model;
pub use zvf_model::{
    Batch, Bounds, Categories, Column, Elements, Field, Kind, LevelId, LevelReader, ObjectId, Part,
    Parts, Value,
};
pub use zvf_publish as publish;
pub use zvf_store as store;
pub use zvf_store::{IoStats, Key, Notice, OpenOptions, Store, Timeouts};

#[cfg(feature = "convert")]
pub use zvf_convert as convert;
#[cfg(feature = "jobs")]
pub use zvf_jobs::{blob, clean, create, export, fetch, ingest, inspect, tasks};
#[cfg(feature = "migrate")]
pub use zvf_migrate as migrate;
#[cfg(feature = "pyramid")]
pub use zvf_pyramid as pyramid;
#[cfg(feature = "query")]
pub use zvf_query as query;
#[cfg(feature = "query")]
pub use zvf_query::{
    Answer, AttributeStatistics, BadQuery, Columns, Counts, FoundObject, LevelRule, Missing, Mode,
    Order, Plan, Query, QueryStats, Reader, Statistics, Summary, UnknownIds, predicate, region,
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

/// Opens the store at `address`, a path or a URL, for asking.
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
/// When there is no store, it cannot be read by this build, or the backend fails.
#[cfg(feature = "query")]
#[boxed]
pub async fn open(address: &str, options: OpenOptions) -> Result<Reader, Error> {
    Ok(Reader::new(open_store(address, options).await?))
}

/// Opens the store at `address` without a way to ask it: for its documents, nodes and levels.
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
    // A repository of versions says itself what is missing.
    let is_of_versions = address.split_once("://").is_some_and(|(scheme, _)| scheme.contains('+'));
    opened.map_err(|error| match (error.class(), error.key()) {
        (format::Class::NotFound, None) if is_of_versions => error,
        (format::Class::NotFound, None | Some("zarr.json")) => error
            .or_hint(|| Some("give the folder of the store, the one with its zarr.json".into())),
        (format::Class::BadTag, Some("zarr.json")) => {
            error.or_hint(|| Some("is this the root of a Zarr Vectors store?".into()))
        }
        _ => error,
    })
}
