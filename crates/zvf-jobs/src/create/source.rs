//! The answer of a store as input instead of a file.
//!
//! It is opened like a file: once to count the vertices and find their extent, and again to write
//! them if they do not fit in memory. A handle keeps its snapshot, so both answers are equal.
//!
//! Not here: the answer in pieces ([`Export`]).

use std::fmt;
use std::path::PathBuf;

use zvf_convert::read::FileReader;
use zvf_model::Kind;
use zvf_query::Query;
use zvf_store::block_on;

use crate::Error;
use crate::export::Export;

/// The answer of a store that is used as input like a file.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// # let folder = std::env::temp_dir().join(format!("zvf-source-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// use std::ops::ControlFlow;
/// use zvf_jobs::create::{Layouts, Recipe, StoreSource};
///
/// let reader = zvf_query::Reader::new(zvf_store::Store::open(path, zvf_store::OpenOptions::default()).await?);
/// let kind = reader.plan(&zvf_query::Query::all()).await?.kind;
/// let source = StoreSource { name: "points".into(), reader, query: zvf_query::Query::all(), kind };
/// let recipe = Recipe { sources: vec![source], ..Recipe::default() };
/// let layouts = Layouts::scan(&["points".into()], &recipe, &mut |_, _| ControlFlow::Continue(()))?;
/// assert!(layouts.iter().all(|layout| layout.vertices > 0));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StoreSource {
    /// Its name in the list of files, and in messages.
    pub name: PathBuf,
    /// The store.
    pub reader: zvf_query::Reader,
    /// The query.
    pub query: Query,
    /// The kind to query.
    pub kind: Kind,
}

impl StoreSource {
    /// Returns the answers to `query` for several kinds of the store called `name`.
    pub fn list(
        reader: &zvf_query::Reader,
        query: &Query,
        kinds: impl IntoIterator<Item = Kind>,
        name: &str,
    ) -> Vec<Self> {
        let source = |kind| {
            let (reader, query) = (reader.clone(), query.clone());
            Self { name: format!("{kind} of {name}").into(), reader, query, kind }
        };
        kinds.into_iter().map(source).collect()
    }

    /// Runs the query; this thread waits for every piece.
    pub(super) fn open(&self) -> Result<FileReader, Error> {
        let asked = Export::open(&self.reader, self.query.clone(), Some(self.kind));
        let mut export = block_on(asked)?;
        Ok(FileReader::from_fn(export.header.clone(), move |notes| {
            let piece = block_on(export.next());
            notes.append(&mut export.notes);
            piece.transpose()
        }))
    }
}

impl fmt::Debug for StoreSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSource").field("name", &self.name).finish_non_exhaustive()
    }
}
