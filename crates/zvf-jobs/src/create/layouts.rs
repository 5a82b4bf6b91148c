//! Files of any kinds as one store: a layout per kind, all with the same chunks.
//!
//! Files of the same kind form one geometry, even if others are between them on the command line.
//! The kind of the first file comes first in the store, except that faces precede everything
//! ([`zvf_write::Schema::with_kind`]).
//!
//! Not here: writing one kind ([`StoreLayout`]).

use async_recursion::async_recursion as boxed;
use std::fmt;
use std::path::PathBuf;

use zvf_convert::read::FileReader;
use zvf_model::{Extent, Kind};
use zvf_write::{Report, TaskPlan};

use super::write::{create_all, folder, lock, write_at_once};
use super::{OnStage, Recipe, StoreLayout, name_file, open};
use crate::Error;
use crate::error::bad_request_error;

/// The plan of a store from files of one or several kinds.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("zvf-layouts-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// use std::ops::ControlFlow;
/// use zvf_jobs::create::{Layouts, Recipe};
///
/// let (points, tree) = (folder.join("a.csv"), folder.join("b.swc"));
/// std::fs::write(&points, "x,y,z\n1,2,3\n")?;
/// std::fs::write(&tree, "1 1 0 0 0 1 -1\n2 1 0 9 0 1 1\n")?;
/// let (recipe, go) = (Recipe::default(), &mut |_, _| ControlFlow::Continue(()));
/// let layouts = Layouts::scan(&[points, tree], &recipe, go)?;
/// assert_eq!(layouts.iter().map(|layout| layout.vertices).collect::<Vec<_>>(), [1, 2]);
/// let store = folder.join("both.zarrvectors");
/// let report = layouts.create(store.to_str().unwrap(), &recipe, go).await?;
/// assert_eq!(report.kinds.len(), 2);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Layouts {
    by_kind: Vec<(Vec<PathBuf>, StoreLayout)>, // at least one; the kinds of the store in order
}

impl Layouts {
    /// Scans the whole of `files`.
    ///
    /// # Errors
    ///
    /// As [`StoreLayout::scan_all`] for the files of each kind, and when kinds have different axes.
    pub fn scan(
        files: &[PathBuf],
        recipe: &Recipe,
        progress: &mut OnStage<'_>,
    ) -> Result<Self, Error> {
        let mut kinds: Vec<(Kind, Vec<PathBuf>, FileReader)> = Vec::new();
        for file in files {
            let reader = open(file, recipe);
            let reader = reader.map_err(|error| name_file(error, file, files.len() > 1))?;
            let kind = reader.header().kind;
            match kinds.iter_mut().find(|(listed, ..)| *listed == kind) {
                Some((_, kind_files, _)) => kind_files.push(file.clone()),
                None => kinds.push((kind, vec![file.clone()], reader)),
            }
        }
        kinds.sort_by_key(|(kind, ..)| *kind != Kind::Mesh);
        if kinds.is_empty() {
            return Err(bad_request_error("the input", "at least one file", "none"));
        }
        let (mut by_kind, mut next) = (Vec::with_capacity(kinds.len()), 0);
        for (_, files, begun) in kinds {
            let layout = StoreLayout::starting_at_id(&files, Some(begun), recipe, next, progress)?;
            next = layout.next;
            by_kind.push((files, layout));
        }
        let mut layouts = Self { by_kind };
        layouts.agree(recipe)?;
        Ok(layouts)
    }

    /// Returns an iterator over the layouts of all kinds, in the order of the store.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &StoreLayout> {
        self.by_kind.iter().map(|(_, layout)| layout)
    }

    /// Writes the files to a new store at `address`. For one kind this is [`create_all`]; several
    /// kinds are written in one run, which cannot be resumed.
    ///
    /// # Errors
    ///
    /// As [`create`](super::create).
    #[boxed]
    pub async fn create(
        &self,
        address: &str,
        recipe: &Recipe,
        progress: &mut OnStage<'_>,
    ) -> Result<Report, Error> {
        if let [(files, layout)] = self.by_kind.as_slice() {
            return create_all(files, address, layout, recipe, progress).await;
        }
        if let Some(folder) = folder(address, recipe).filter(|folder| folder.exists()) {
            let _lock = lock(&folder)?;
            TaskPlan::remove(&folder)?; // what one kind, killed, had left
        }
        let kinds: Vec<_> = self.by_kind.iter().map(|(files, layout)| (&**files, layout)).collect();
        write_at_once(&kinds, address, recipe, progress).await
    }

    /// Gives all kinds the same chunks.
    fn agree(&mut self, recipe: &Recipe) -> Result<(), Error> {
        let [(_, first), other_layouts @ ..] = self.by_kind.as_slice() else { return Ok(()) };
        if other_layouts.is_empty() {
            return Ok(());
        }
        let axes = first.header.axes.clone();
        for (files, layout) in other_layouts {
            if layout.header.axes != axes {
                let file = files.first().map(|file| file.display().to_string()).unwrap_or_default();
                let found = format!("{} in {file}", layout.header.axes.join(", "));
                let expected = "the same axes in every file";
                return Err(bad_request_error("the input", expected, &found));
            }
        }
        let all = || self.by_kind.iter().map(|(_, layout)| layout);
        let vertices = all().map(|layout| layout.vertices).sum::<u64>();
        let bytes = all().map(|layout| layout.bytes).sum::<u64>();
        let bounds = all().filter_map(|layout| layout.bounds.clone()).reduce(Extent::union);
        let mut units: Vec<Vec<Option<String>>> =
            all().map(|layout| layout.header.units.clone()).collect();
        units.retain(|units| !units.is_empty());
        units.sort_unstable();
        units.dedup();
        for (_, layout) in &mut self.by_kind {
            layout.choose_chunks(bounds.as_ref(), (vertices, bytes), recipe);
            layout.header.units = Vec::new();
        }
        if let Some((_, first)) = self.by_kind.first_mut() {
            match units.as_slice() {
                [only] => first.header.units.clone_from(only),
                [] => {}
                several => {
                    let named = several.iter().map(|units| {
                        let mut units: Vec<_> = units.iter().flatten().cloned().collect();
                        units.dedup();
                        units.join(", ")
                    });
                    let several = named.collect::<Vec<_>>().join(" and ");
                    let note = format!("units, {several}: numbers are kept unchanged");
                    first.header.notes.push(note);
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Layouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, layout) in self.iter().enumerate() {
            let between = if n > 0 { "\n\n" } else { "" };
            write!(f, "{between}{layout}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    #[test]
    fn different_units_are_reported() {
        let folder = std::env::temp_dir().join(format!("zvf-units-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (points, tree) = (folder.join("a.csv"), folder.join("b.swc"));
        std::fs::write(&points, "x,y,z\n1,2,3\n40,2,3\n").unwrap();
        std::fs::write(&tree, "1 1 0 0 0 1 -1\n2 1 0 90 0 1 1\n").unwrap();
        let recipe = Recipe::default();
        let continue_always = &mut |_, _| ControlFlow::Continue(());
        let mut layouts = Layouts::scan(&[points, tree], &recipe, continue_always).unwrap();
        let unit_and_notes = |layouts: &Layouts| {
            let first = layouts.iter().next().unwrap();
            (first.header.unit().map(str::to_owned), first.header.notes.clone())
        };
        assert_eq!(unit_and_notes(&layouts), (Some("micrometer".to_owned()), Vec::new()));
        let chunks: Vec<&[f64]> = layouts.iter().map(|layout| &*layout.chunk).collect();
        assert_eq!(chunks[0], chunks[1], "kinds share their chunks");
        let header = layouts.by_kind[1].1.header.clone();
        layouts.by_kind[1].1.header = header.with_unit("millimeter");
        layouts.agree(&recipe).unwrap();
        let note = "units, micrometer and millimeter: numbers are kept unchanged";
        assert_eq!(unit_and_notes(&layouts), (None, vec![note.to_owned()]));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
