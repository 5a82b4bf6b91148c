//! Keeps cells of the replaced store in arrays that are rewritten without them.
//!
//! If few cells of an array change, the array is written with those cells alone and then completed:
//! a hard link to the file of each other cell, and its key in the presence list. This is possible
//! if each cell is a file and means the same in both arrays: same codecs, same origin, same
//! attributes.
//!
//! Not here: arrays that do not change (`carry_over`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_metadata::{ArrayDoc, KeyList, Node};
use zvf_publish::{StagingDir, found};

use super::Build;
use super::site::on_disk;
use crate::docs::document;
use crate::error::WithOp as _;
use crate::key::Key;
use crate::layout::{chunk_grid, name_chunk};

impl Build {
    /// Carries over the cells for which `stays` is true, from the arrays of the replaced store into
    /// the arrays that were written at and below `path`. Returns false, and does nothing, if one of
    /// these cannot take the cells or already has them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> zvf_error::Result<()> {
    /// # use zvf_format::key::ChunkKey;
    /// # use zvf_metadata::{Axis, LevelDoc, Root, ZarrVectors};
    /// # use zvf_store::{Build, BuildOptions, CellPlan, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let address = dir.path().join("x").to_str().unwrap().to_owned();
    /// # let block = ZarrVectors::new(vec![1.0], [vec![0.0], vec![9.0]]);
    /// # let root = Root::new(block, Axis::spatial(1).unwrap_or_default());
    /// # let build = Build::begin(&address, BuildOptions::default()).await?;
    /// # build.group("0", &LevelDoc::new(0).to_group()).await?;
    /// # let cells = build.cells("0/vertices", CellPlan::new(vec![0], vec![9]))?;
    /// # for (key, byte) in [("1", 1), ("2", 2), ("3", 3)] {
    /// #     cells.put(&key.parse::<ChunkKey>()?, vec![byte; 8].into())?;
    /// # }
    /// # cells.finish(|_| ()).await?;
    /// # build.publish(&root).await?;
    /// // The store has cells 1 to 3 and gets another one in place of 2.
    /// let options = BuildOptions { replace: true, ..BuildOptions::default() };
    /// let build = Build::begin(&address, options).await?;
    /// # build.group("0", &LevelDoc::new(0).to_group()).await?;
    /// let changed = "2".parse::<ChunkKey>()?;
    /// let cells = build.cells("0/vertices", CellPlan::new(vec![0], vec![9]))?;
    /// cells.put(&changed, vec![7; 8].into())?;
    /// cells.finish(|_| ()).await?;
    /// assert!(build.retain_cells("0", move |key| *key != changed).await?);
    /// build.publish(&root).await?;
    /// # let read = |name: &str| std::fs::read(format!("{address}/0/vertices/c/{name}")).unwrap();
    /// # assert_eq!(["1", "2", "3"].map(|name| read(name)[8]), [1, 7, 3]);
    /// # let document = std::fs::read_to_string(format!("{address}/0/vertices/zarr.json")).unwrap();
    /// # let list: String = document.chars().filter(|c| !c.is_whitespace()).collect();
    /// # assert!(list.contains(r#""nonempty_chunks":["1","2","3"]"#), "{document}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`](zvf_format::Class::Unsupported) on an object store; otherwise when a document cannot be
    /// read, or a file can be neither linked nor copied.
    pub async fn retain_cells(
        &self,
        path: &str,
        stays: impl Fn(&ChunkKey) -> bool + Send + 'static,
    ) -> Result<bool> {
        let folder = self.staging()?;
        let arrays = self.0.nodes.arrays_at(&Key::parse(path)?);
        let retain = move |folder: &StagingDir| {
            let joined_arrays = arrays.iter().map(|array| Joined::new(folder, array, &stays));
            let Some(joined_arrays) = joined_arrays.collect::<Result<Option<Vec<Joined>>, _>>()?
            else {
                return Ok(false);
            };
            for joined in joined_arrays {
                folder.carry_over_files(&joined.files)?;
                let document = document(&joined.array)?;
                folder.put_again(document.as_str(), &joined.doc.print().into())?;
            }
            Ok::<_, Error>(true)
        };
        on_disk(folder, "write", retain).await
    }
}

/// An array and the cells that it receives.
struct Joined {
    array: Key,
    doc: ArrayDoc,
    files: Vec<String>,
}

impl Joined {
    /// Returns `None` if the array cannot take the cells.
    fn new(
        folder: &StagingDir,
        array: &Key,
        stays: &dyn Fn(&ChunkKey) -> bool,
    ) -> Result<Option<Self>> {
        let new = read(folder.path(), array)?;
        let old = read(folder.lock().target(), array)?;
        let (Some(new), Some(old)) = (new, old) else { return Ok(None) };
        let same = new.sharding().is_none()
            && new.chunk_key_encoding == old.chunk_key_encoding
            && new.codecs == old.codecs
            && new.attributes == old.attributes
            && new.chunk_shape == old.chunk_shape;
        let (Some(fresh), Some(before), true) = (&new.nonempty_chunks, &old.nonempty_chunks, same)
        else {
            return Ok(None);
        };
        let grid = chunk_grid(array, &new)?;
        let mut present: BTreeSet<String> = fresh.iter().map(str::to_owned).collect();
        let mut files = Vec::new();
        for text in before.iter() {
            let key = text.parse::<ChunkKey>()?;
            if !stays(&key) {
                continue;
            }
            let Ok(at) = grid.path(&key) else { return Ok(None) };
            if !present.insert(key.to_string()) {
                return Ok(None);
            }
            files.push(format!("{array}/{}", name_chunk(new.chunk_key_encoding, at.index())));
        }
        let present = present.iter().map(String::as_str).collect::<KeyList>();
        let doc = ArrayDoc { nonempty_chunks: Some(present), ..new };
        Ok(Some(Self { array: array.clone(), doc, files }))
    }
}

/// Reads the document of an array in a folder; `None` if there is no such array.
fn read(folder: &Path, array: &Key) -> Result<Option<ArrayDoc>> {
    let key = document(array)?;
    let text = found(fs::read(folder.join(key.as_str())));
    let Some(text) = text.with_op("read").at_key(&key)? else { return Ok(None) };
    match Node::parse(&text).at_key(&key)? {
        Node::Array(doc) => Ok(Some(*doc)),
        Node::Group(_) => Ok(None),
    }
}
