//! The structure of objects: trees and their roots, connected components, chains and their ends.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use crate::error::{EditError, Result, refuse_if, refused};
use crate::geometry::Geometry;
use crate::numbers::{NONE, Vid};
use crate::records::End;

impl Geometry {
    /// Sets the parents of new vertices from a list with exactly one null.
    pub(crate) fn set_parents(&mut self, vertices: &[Vid], parents: &[Json]) -> Result<()> {
        let mut roots = 0;
        for (v, parent) in vertices.iter().zip(parents) {
            self.vertex[*v].parent = match parent.is_null() {
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
        let mut above = self.vertex[root].parent;
        while above != NONE {
            path.push(above);
            above = self.vertex[above].parent;
        }
        if let Some(family) = &mut self.links {
            let mut turned = Vec::new();
            for pair in path.windows(2) {
                let record = family
                    .records
                    .at(pair[0])
                    .into_iter()
                    .find(|number| family.records.ends(*number)[0] == End::Vertex(pair[0]));
                turned.extend(record.map(|number| (number, pair[0], pair[1])));
            }
            for (number, child, parent) in turned {
                let ends = [parent, child].map(End::Vertex);
                family.records.ends_mut(number).clone_from_slice(&ends);
            }
        }
        for pair in path.windows(2) {
            self.vertex[pair[1]].parent = pair[0];
        }
        self.vertex[root].parent = NONE;
        let owner = self.vertex[root].owner;
        self.parents_changed.insert(owner);
        Ok(())
    }

    /// Cuts the subtree at `root` off. Returns the other vertices, then those of the subtree.
    pub(crate) fn cut_tree(&mut self, vertices: &[Vid], root: Vid) -> Result<Vec<Vec<Vid>>> {
        refuse_if(self.vertex[root].parent == NONE, "at: the root cannot be split off")?;
        let mut children: HashMap<Vid, Vec<Vid>> = HashMap::new();
        for v in vertices {
            children.entry(self.vertex[*v].parent).or_default().push(*v);
        }
        let mut below: HashSet<Vid> = HashSet::new();
        let mut stack = vec![root];
        while let Some(v) = stack.pop() {
            below.insert(v);
            stack.extend(children.get(&v).into_iter().flatten());
        }
        self.vertex[root].parent = NONE;
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
            for number in family.records.alive() {
                let ends = family.records.vertices(number);
                let ends: Vec<usize> = ends.filter_map(|v| indexes.get(&v).copied()).collect();
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
        let Some(objects) = &self.objects else { return Vec::new() };
        let existing = objects.numbers().filter(|number| objects.exists(*number));
        let mut list: Vec<(i64, u32)> = existing.map(|n| (objects.id(n), n)).collect();
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
                self.vertex[v].alive = is_kept.contains(&v);
                self.vertex[v].owner = target;
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
            match self.vertex[*v].parent {
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
