//! The files of one crate, and the dependencies between them.
//!
//! A path is resolved to the file that defines its item, through the imports of the modules on the
//! way.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;

use super::source::ModuleSource;

/// The files of a crate, by their paths below `src`.
pub(super) type Tree = BTreeMap<String, String>;

/// Which files refer to which.
#[derive(Default)]
pub(super) struct Graph {
    /// Paths below `src`.
    pub(super) files: Vec<String>,
    /// For each file, the other files that it refers to, each with the path in the source.
    pub(super) names: Vec<BTreeMap<usize, String>>,
    modules: Vec<Module>,
    by_path: BTreeMap<Vec<String>, usize>,
}

/// A module and the file it is in.
struct Module {
    path: Vec<String>,
    file: usize,
    source: ModuleSource,
}

/// The target of a path.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item of that module.
    Item(usize),
}

impl Graph {
    /// Reads the files of the crate whose first file is `root`.
    pub(super) fn read(tree: &Tree, root: &str) -> anyhow::Result<Self> {
        let mut graph = Self::default();
        graph.add_file(tree, root, "", Vec::new())?;
        graph.names = vec![BTreeMap::new(); graph.files.len()];
        for module in 0..graph.modules.len() {
            graph.add_edges(module);
        }
        Ok(graph)
    }

    /// Adds a file and its submodules, which are in `folder`.
    fn add_file(
        &mut self,
        tree: &Tree,
        file: &str,
        folder: &str,
        path: Vec<String>,
    ) -> anyhow::Result<()> {
        let text = tree.get(file).with_context(|| format!("no {file}"))?;
        let source = ModuleSource::parse(text).with_context(|| file.to_owned())?;
        let number = self.files.len();
        self.files.push(file.to_owned());
        for name in &source.declared {
            let (flat, nested) = (format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs"));
            let child = if tree.contains_key(&flat) { flat } else { nested };
            let mut below = path.clone();
            below.push(name.clone());
            self.add_file(tree, &child, &format!("{folder}{name}/"), below)?;
        }
        self.add_module(number, path, source);
        Ok(())
    }

    /// Adds a module and its inline submodules.
    fn add_module(&mut self, file: usize, path: Vec<String>, mut source: ModuleSource) {
        for (name, block) in std::mem::take(&mut source.blocks) {
            let mut below = path.clone();
            below.push(name);
            self.add_module(file, below, block);
        }
        self.by_path.insert(path.clone(), self.modules.len());
        self.modules.push(Module { path, file, source });
    }

    /// Adds the edges of a module. There are none between a module and its submodules.
    fn add_edges(&mut self, from: usize) {
        let module = &self.modules[from];
        let mut found = Vec::new();
        for path in &module.source.paths {
            let target = self.resolve(from, path, &mut BTreeSet::new());
            let Some(Target::Module(to) | Target::Item(to)) = target else { continue };
            let (a, b) = (&module.path, &self.modules[to].path);
            let to = self.modules[to].file;
            if to != module.file && !a.starts_with(b) && !b.starts_with(a) {
                found.push((to, path.join("::")));
            }
        }
        let file = module.file;
        for (to, path) in found {
            self.names[file].entry(to).or_insert(path);
        }
    }

    /// Resolves a path from a module; `None` if it leads out of the crate. `visited` has the
    /// imports on the way.
    fn resolve(
        &self,
        from: usize,
        path: &[String],
        visited: &mut BTreeSet<(usize, String)>,
    ) -> Option<Target> {
        let [first, rest @ ..] = path else { return None };
        let mut target = match first.as_str() {
            "crate" => Target::Module(self.module(&[])?),
            "self" => Target::Module(from),
            "super" => self.parent(from)?,
            name => self.member(from, name, visited)?,
        };
        for name in rest {
            let Target::Module(module) = target else { break };
            target = match name.as_str() {
                "super" => self.parent(module)?,
                name => self.member(module, name, visited).unwrap_or(Target::Item(module)),
            };
        }
        Some(target)
    }

    /// Returns the meaning of a name in a module: a submodule, an item, or an import.
    fn member(
        &self,
        module: usize,
        name: &str,
        visited: &mut BTreeSet<(usize, String)>,
    ) -> Option<Target> {
        if !visited.insert((module, name.to_owned())) {
            return None;
        }
        let Module { path, source, .. } = &self.modules[module];
        let mut below = path.clone();
        below.push(name.to_owned());
        if let Some(below) = self.module(&below) {
            return Some(Target::Module(below));
        }
        if source.items.contains(name) {
            return Some(Target::Item(module));
        }
        if let Some(import) =
            source.imports.iter().find(|import| import.name.as_deref() == Some(name))
        {
            return self.resolve(module, &import.path, visited);
        }
        source.imports.iter().filter(|import| import.name.is_none()).find_map(|import| {
            match self.resolve(module, &import.path, &mut visited.clone())? {
                Target::Module(all) => self.member(all, name, visited),
                Target::Item(_) => None,
            }
        })
    }

    fn module(&self, path: &[String]) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    fn parent(&self, module: usize) -> Option<Target> {
        let (_, path) = self.modules[module].path.split_last()?;
        self.module(path).map(Target::Module)
    }
}
