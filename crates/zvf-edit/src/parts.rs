//! The structure of objects: trees and their roots, connected components, chains and their ends.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use crate::error::{EditError, Result, refuse_if, refused};
use crate::geometry::Geometry;
use crate::links::End;
use crate::numbers::{NONE, Vid};
use zvf_format::num;

impl Geometry {
    /// Loads the links at vertices.
    pub(crate) fn load_links_of(&mut self, vertices: &[Vid]) -> Result<()> {
        let chunks: HashSet<u32> = vertices
            .iter()
            .map(|v| self.home[*v as usize].0)
            .filter(|chunk| *chunk != NONE)
            .collect();
        let chunks: Vec<u32> = chunks.into_iter().collect();
        self.load_links(&chunks)
    }

    /// Sets the parents of new vertices from a list with exactly one null.
    pub(crate) fn set_parents(&mut self, vertices: &[Vid], parents: &[Json]) -> Result<()> {
        let mut roots = 0;
        for (v, parent) in vertices.iter().zip(parents) {
            self.parent[*v as usize] = match parent.is_null() {
                true => {
                    roots += 1;
                    NONE
                }
                false => {
                    let at = parent.as_u64().and_then(|i| vertices.get(usize::try_from(i).ok()?));
                    *at.ok_or_else(|| {
                        let text = format!("parents: {parent} of {} vertices", vertices.len());
                        EditError::invalid(text)
                    })?
                }
            };
        }
        if roots != 1 {
            return refused(format!("parents: {roots} roots, expected one"));
        }
        refuse_if(
            self.depth_first(vertices).len() != vertices.len(),
            "parents: there is a circle",
        )?;
        Ok(())
    }

    /// Makes a vertex the root of its tree by reversing the edges above it. Edges keep their values.
    pub(crate) fn reroot(&mut self, root: Vid) -> Result<()> {
        let mut path = vec![root];
        let mut above = self.parent[root as usize];
        while above != NONE {
            path.push(above);
            above = self.parent[above as usize];
        }
        if let Some(family) = &mut self.links {
            let mut turned = Vec::new();
            for pair in path.windows(2) {
                let record = family.records_at(pair[0]).into_iter().find(|number| {
                    family.records[*number as usize].ends[0] == End::Vertex(pair[0])
                });
                turned.extend(record.map(|number| (number, pair[0], pair[1])));
            }
            for (number, child, parent) in turned {
                family.records[number as usize].ends =
                    vec![End::Vertex(parent), End::Vertex(child)];
            }
        }
        for pair in path.windows(2) {
            self.parent[pair[1] as usize] = pair[0];
        }
        self.parent[root as usize] = NONE;
        let owner = self.owner[root as usize];
        self.parents_changed.insert(owner);
        Ok(())
    }

    /// Cuts the subtree at `root` off. Returns the other vertices, then those of the subtree.
    pub(crate) fn cut_tree(&mut self, vertices: &[Vid], root: Vid) -> Result<Vec<Vec<Vid>>> {
        refuse_if(self.parent[root as usize] == NONE, "at: the root cannot be split off")?;
        let mut children: HashMap<Vid, Vec<Vid>> = HashMap::new();
        for v in vertices {
            children.entry(self.parent[*v as usize]).or_default().push(*v);
        }
        let mut below: HashSet<Vid> = HashSet::new();
        let mut stack = vec![root];
        while let Some(v) = stack.pop() {
            below.insert(v);
            stack.extend(children.get(&v).into_iter().flatten());
        }
        self.parent[root as usize] = NONE;
        let (part, rest): (Vec<Vid>, Vec<Vid>) =
            vertices.iter().copied().partition(|v| below.contains(v));
        Ok(vec![rest, part])
    }

    /// Returns the connected components of vertices by their links (union-find), in the order of their first vertices.
    pub(crate) fn connected_components(&mut self, vertices: &[Vid]) -> Result<Vec<Vec<Vid>>> {
        self.load_links_of(vertices)?;
        let indexes: HashMap<Vid, usize> =
            vertices.iter().enumerate().map(|(i, v)| (*v, i)).collect();
        let mut leader: Vec<usize> = (0..vertices.len()).collect();
        fn find(leader: &mut [usize], mut i: usize) -> usize {
            while leader[i] != i {
                leader[i] = leader[leader[i]];
                i = leader[i];
            }
            i
        }
        if let Some(family) = &self.links {
            for record in family.records.iter().filter(|record| record.alive) {
                let ends: Vec<usize> =
                    record.vertices().filter_map(|v| indexes.get(&v).copied()).collect();
                for pair in ends.windows(2) {
                    let (a, b) = (find(&mut leader, pair[0]), find(&mut leader, pair[1]));
                    let (low, high) = (a.min(b), a.max(b));
                    leader[high] = low;
                }
            }
        }
        let mut parts: Vec<Vec<Vid>> = Vec::new();
        let mut number: HashMap<usize, usize> = HashMap::new();
        for (i, v) in vertices.iter().enumerate() {
            let root = find(&mut leader, i);
            let at = *number.entry(root).or_insert_with(|| {
                parts.push(Vec::new());
                parts.len() - 1
            });
            parts[at].push(*v);
        }
        Ok(parts)
    }

    /// Returns the ids and numbers of all objects that exist, by ascending id.
    pub(crate) fn existing_objects(&self) -> Vec<(i64, u32)> {
        let mut list: Vec<(i64, u32)> = self
            .object_numbers()
            .zip(self.objects.iter().flat_map(|objects| &objects.list))
            .filter(|(_, object)| object.exists)
            .map(|(number, object)| (object.id, number))
            .collect();
        list.sort_unstable();
        list
    }

    /// Gives `vertices` to `target`. Removes the other vertices of `objects`, and these objects except for `target`.
    pub(crate) fn give_vertices(
        &mut self,
        objects: &[u32],
        target: u32,
        vertices: Vec<Vid>,
    ) -> Result<()> {
        let is_kept: HashSet<Vid> = vertices.iter().copied().collect();
        for object in objects {
            for v in self.vertices_of(*object) {
                self.alive[num::usize_from_u32(v)] = is_kept.contains(&v);
                self.owner[num::usize_from_u32(v)] = target;
            }
            if *object != target {
                let state = self.object_mut(*object)?;
                state.exists = false;
                state.vertices.clear();
            }
        }
        self.object_mut(target)?.vertices = vertices;
        Ok(())
    }

    /// Joins chains to one: in order, or at the closest ends.
    pub(crate) fn join_chains(&self, lists: Vec<Vec<Vid>>, at_ends: bool, weld: bool) -> Vec<Vid> {
        let mut lists = lists.into_iter();
        let mut chain = lists.next().unwrap_or_default();
        let gap = |a: Option<&Vid>, b: Option<&Vid>| -> f64 {
            let (Some(a), Some(b)) = (a, b) else { return f64::INFINITY };
            self.position(*a).iter().zip(self.position(*b)).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        for mut next in lists {
            let ways = [
                gap(chain.last(), next.first()),
                gap(chain.last(), next.last()),
                gap(chain.first(), next.last()),
                gap(chain.first(), next.first()),
            ];
            let mut way = 0;
            if at_ends {
                for (i, gap) in ways.iter().enumerate() {
                    if *gap < ways[way] {
                        way = i;
                    }
                }
            }
            if way == 1 || way == 3 {
                next.reverse();
            }
            let (mut front, mut back) = if way < 2 { (chain, next) } else { (next, chain) };
            let same = front
                .last()
                .zip(back.first())
                .is_some_and(|(a, b)| self.position(*a) == self.position(*b));
            if weld && same {
                match way < 2 {
                    true => {
                        back.remove(0);
                    }
                    false => {
                        front.pop();
                    }
                }
            }
            front.append(&mut back);
            chain = front;
        }
        chain
    }

    /// Returns the vertices of a tree in depth-first preorder, children in the order of `vertices`.
    pub(crate) fn depth_first(&self, vertices: &[Vid]) -> Vec<Vid> {
        let mut children: HashMap<Vid, Vec<Vid>> = HashMap::new();
        let mut stack = Vec::new();
        for v in vertices {
            match self.parent[*v as usize] {
                NONE => stack.push(*v),
                parent => children.entry(parent).or_default().push(*v),
            }
        }
        stack.reverse();
        let mut order = Vec::with_capacity(vertices.len());
        while let Some(v) = stack.pop() {
            order.push(v);
            if let Some(below) = children.get(&v) {
                stack.extend(below.iter().rev());
            }
        }
        order
    }
}
