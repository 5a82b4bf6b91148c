//! The parts of the old store, and the new form of each.
//!
//! The plan is made by listing names and reading documents, without payloads. A store that cannot
//! be listed cannot be migrated: unlisted objects would be lost silently.

use async_recursion::async_recursion as boxed;
use std::collections::BTreeSet;

use zvf_error::{Error, Result, quote};
use zvf_format::Class;
use zvf_format::key::Delta;
use zvf_metadata::LayoutFamily;
use zvf_model::{LevelId, LevelReader};
use zvf_store::Store;

/// The changes of a migration, part by part.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let old = archives::Unpacked::new("v070_gr3");
/// # let old = old.path().to_str().unwrap();
/// let store = zvf_store::Store::open(old, Default::default()).await?;
/// let plan = zvf_migrate::MigrationPlan::build(&store).await?;
/// let root = plan.changes().next().unwrap();
/// assert_eq!((root.path, root.before, root.after), ("", "0.7.0", "0.9.2"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MigrationPlan {
    pub(crate) store: Store,
    pub(crate) levels: Vec<PlannedLevel>,
    pub(crate) extra_kinds: Vec<Step>,
    version: String,
}

/// A change in the new store, or a part that is copied.
///
/// ```
/// use zvf_migrate::MigrationChange;
///
/// let change = MigrationChange { path: "0/groups", before: "data and offsets", after: "rows" };
/// assert_eq!(change.path, "0/groups");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MigrationChange<'a> {
    /// The path below the root of the store; empty for the root itself.
    pub path: &'a str,
    /// The old form.
    pub before: &'a str,
    /// The new form.
    pub after: &'a str,
}

/// A level and its parts.
#[derive(Clone, Debug)]
pub(crate) struct PlannedLevel {
    pub(crate) reader: LevelReader,
    pub(crate) steps: Vec<Step>,
}

/// One part and its type.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) path: String,
    pub(crate) what: What,
}

/// The type of a part, which determines how it is migrated.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Vertices and their fragments.
    Vertices,
    /// Rows by chunk without fragments, of a composite store.
    OtherVertices,
    /// An attribute of vertices, or of fragments.
    Column { name: String, of_fragments: bool },
    /// Links to the level `delta` away, with their attributes; bridges are derived again.
    Links { delta: Delta, attributes: Vec<String>, bridges: bool },
    /// Manifests and ids of objects.
    Objects,
    /// Values by object or by group.
    Values { of_groups: bool },
    /// Members of groups.
    Groups,
    /// A table of numbers: links of a composite store, coefficients.
    Table,
    /// Names of parametric objects.
    Names,
    /// A group that has only attributes.
    Document,
    /// Anything unknown.
    Unknown,
}

impl MigrationPlan {
    /// Plans the migration of `store`.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] for a store of 0.9 or later, and for a store that cannot be listed;
    /// otherwise when a document cannot be read.
    #[boxed]
    pub async fn build(store: &Store) -> Result<Self> {
        let version = store.version().to_string();
        if store.family() == LayoutFamily::C {
            return Err(Error::new(
                Class::Unsupported,
                "version",
                "one before 0.9: zvf rewrite --shard and zvf rewrite --codec write others anew",
                quote(&version),
            ));
        }
        let mut plan =
            Self { store: store.clone(), levels: Vec::new(), extra_kinds: Vec::new(), version };
        for number in store.list_levels().await? {
            let reader = LevelReader::open(store, LevelId(number)).await?;
            let steps = level(&reader).await?;
            plan.levels.push(PlannedLevel { reader, steps });
        }
        let levels: BTreeSet<String> =
            plan.levels.iter().map(|level| level.reader.level().to_string()).collect();
        for name in store.nodes().children("").await?.names {
            if !levels.contains(&name) {
                plan.extra_kinds.extend(plan_extra_kinds(store, &name).await?);
            }
        }
        Ok(plan)
    }

    /// Returns the changes in order, beginning with the version.
    pub fn changes(&self) -> impl Iterator<Item = MigrationChange<'_>> {
        let root = MigrationChange { path: "", before: &self.version, after: KNOWN };
        let levels = self.levels.iter().flat_map(|level| &level.steps);
        let parts = levels.chain(&self.extra_kinds).map(|step| {
            let (before, after) = step.what.words();
            MigrationChange { path: &step.path, before, after }
        });
        [root].into_iter().chain(parts)
    }
}

impl What {
    /// Returns the old and the new form.
    const fn words(&self) -> (&'static str, &'static str) {
        let by_chunk = "an array for each chunk";
        match self {
            Self::Vertices => (by_chunk, "one array over the grid, and one of fragments"),
            Self::OtherVertices | Self::Column { .. } => (by_chunk, "one array over the grid"),
            Self::Links { bridges: true, .. } => {
                ("bridges that name no rows", "bridges that follow from the manifests")
            }
            Self::Links { .. } => ("records within and between chunks", "records by offsets"),
            Self::Objects => ("manifests by id", "manifests and object_ids"),
            Self::Values { of_groups: false } => {
                ("values and which are present", "values, with a fill value for the others")
            }
            Self::Values { of_groups: true } | Self::Table => ("bytes", "one array of numbers"),
            Self::Groups => ("data and offsets", "rows"),
            Self::Names => ("one text", "rows"),
            Self::Document => ("a document", "the same"),
            Self::Unknown => ("not of the format", "the same"),
        }
    }
}

/// Returns the parts of a level.
async fn level(reader: &LevelReader) -> Result<Vec<Step>> {
    let node = reader.node();
    let mut steps = Vec::new();
    let mut step = |path: &str, what| {
        steps.push(Step { path: format!("{}/{path}", node.path()), what });
    };
    let mut deltas = BTreeSet::new();
    for name in node.children("").await?.names {
        match name.as_str() {
            "vertices" => step(&name, What::Vertices),
            // These are part of the vertices and of the links.
            "vertex_fragments" | "link_fragments" => {}
            "link_attributes" | "cross_chunk_link_attributes" => {}
            "vertex_attributes" | "fragment_attributes" => {
                let of_fragments = name == "fragment_attributes";
                for attribute in node.children(&name).await?.names {
                    let path = format!("{name}/{attribute}");
                    step(&path, What::Column { name: attribute, of_fragments });
                }
            }
            "links" | "cross_chunk_links" => {
                for child in node.children(&name).await?.names {
                    deltas.insert(child.parse::<Delta>()?.0);
                }
            }
            "object_index" => step(&name, What::Objects),
            "object_attributes" | "group_attributes" => {
                let of_groups = name == "group_attributes";
                for attribute in node.children(&name).await?.names {
                    step(&format!("{name}/{attribute}"), What::Values { of_groups });
                }
            }
            "groups" => step(&name, What::Groups),
            "geometry_index" => step(&name, What::Document),
            _ if name.starts_with("vertices_") => step(&name, What::OtherVertices),
            _ if name.starts_with("links_") => step(&name, What::Table),
            _ => step(&name, What::Unknown),
        }
    }
    for delta in deltas.into_iter().map(Delta) {
        let attributes = link_attributes(reader, delta).await?;
        let bridges = delta == Delta::SAME
            && attributes.is_empty()
            && !reader.kinds().is_empty()
            && reader.kinds().iter().all(|kind| kind.is_chain());
        step(&format!("links/{delta}"), What::Links { delta, attributes, bridges });
    }
    Ok(steps)
}

/// Returns the names of the attributes of the links of one family.
async fn link_attributes(reader: &LevelReader, delta: Delta) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in reader.link_attribute_names().await?.names {
        for family in ["link_attributes", "cross_chunk_link_attributes"] {
            let deltas = reader.node().children(&format!("{family}/{name}")).await?.names;
            if deltas.contains(&delta.to_string()) {
                names.push(name.clone());
                break;
            }
        }
    }
    Ok(names)
}

/// Returns the parts of a geometry outside of the levels.
async fn plan_extra_kinds(store: &Store, name: &str) -> Result<Vec<Step>> {
    let step = |path: String, what| Step { path, what };
    let mut steps = Vec::new();
    match name {
        "headers" => {
            for format in store.nodes().children(name).await?.names {
                steps.push(step(format!("{name}/{format}"), What::Document));
            }
        }
        "parametric" => {
            steps.push(step(name.to_owned(), What::Document));
            for part in store.nodes().children(name).await?.names {
                let path = format!("{name}/{part}");
                match part.as_str() {
                    "objects" => steps.push(step(path, What::Table)),
                    "names" => steps.push(step(path, What::Names)),
                    "groups" => steps.push(step(path, What::Groups)),
                    "object_attributes" | "group_attributes" => {
                        let of_groups = part == "group_attributes";
                        for attribute in store.nodes().children(&path).await?.names {
                            let path = format!("{path}/{attribute}");
                            steps.push(step(path, What::Values { of_groups }));
                        }
                    }
                    _ => steps.push(step(path, What::Unknown)),
                }
            }
        }
        _ => steps.push(step(name.to_owned(), What::Unknown)),
    }
    Ok(steps)
}

const KNOWN: &str = "0.9.2";

#[cfg(test)]
mod tests {
    use zvf_metadata::Version;

    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_written() {
        assert_eq!(Version::KNOWN.to_string(), KNOWN);
    }
}
