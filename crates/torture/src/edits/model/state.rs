//! The model: objects as lists of vertices, links as lists of positions, groups as sets of ids.
//!
//! Slow and simple, and written from the description of the operations: it shares no code with the library. Positions
//! are quarters of units, so that they are exact as float32.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure};
use archives::random::Random;
use serde_json::{Value, json};
use zvf_model::Kind;

use super::Step;

/// A position in quarters of units.
pub(crate) type Point = [i64; 2];

/// The contents of a store: the vertices of each object in order, and links as lists of positions.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) objects: BTreeMap<Option<i64>, Vec<(Point, i64)>>,
    pub(crate) links: Vec<Vec<Point>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Vertex {
    pub(crate) at: Point,
    pub(crate) tag: i64,
}

/// A store.
#[derive(Clone)]
pub(crate) struct ModelStore {
    pub(crate) kind: Kind,
    with_objects: bool,
    pub(crate) objects: BTreeMap<i64, Vec<Vertex>>,
    pub(crate) free: Vec<Vertex>,
    pub(crate) links: Vec<Vec<Point>>, // of skeletons from child to parent
    groups: Vec<BTreeSet<i64>>,
    used: BTreeSet<i64>,    // ids that were ever assigned
    taken: BTreeSet<Point>, // positions that were ever used
    random: Random,         // for positions
}

/// An operation as a line of a script, and its effect on the model.
pub(crate) struct Planned {
    pub(crate) line: Value,
    new: ModelStore,
    /// The vertices of each object that gets a new id.
    made: Vec<Vec<Vertex>>,
    /// The object in whose groups these are.
    groups_of: Option<i64>,
}

impl ModelStore {
    pub(crate) fn new(kind: Kind, with_objects: bool) -> Self {
        Self {
            kind,
            with_objects,
            objects: BTreeMap::new(),
            free: Vec::new(),
            links: Vec::new(),
            groups: Vec::new(),
            used: BTreeSet::new(),
            taken: BTreeSet::new(),
            random: Random::new(0),
        }
    }

    /// Adds a few initial objects.
    pub(crate) fn add_initial_objects(&mut self) {
        if !self.with_objects {
            self.free = self.new_vertices(12, 40);
            return;
        }
        for id in 0..4 {
            let count = if self.kind == Kind::Line { 2 } else { 6 };
            let vertices = self.new_vertices(count, 60);
            self.add_links(&vertices);
            self.objects.insert(id, vertices);
            self.used.insert(id);
        }
    }

    /// Releases the ids assigned since `earlier`.
    pub(crate) fn forget_ids_since(&mut self, earlier: &Self) {
        self.used.clone_from(&earlier.used);
    }

    /// Returns this model with all ids and positions ever used, which must not be reused.
    pub(crate) fn with_used_ids_of(mut self, later: &Self) -> Self {
        self.used.extend(&later.used);
        self.taken.extend(&later.taken);
        self.random = later.random.clone();
        self
    }

    fn has_links(&self) -> bool {
        matches!(self.kind, Kind::Graph | Kind::Mesh)
    }

    fn is_chain(&self) -> bool {
        matches!(self.kind, Kind::Polyline | Kind::Streamline)
    }

    fn width(&self) -> usize {
        if self.kind == Kind::Mesh { 3 } else { 2 }
    }

    /// Returns new vertices at unused positions, within `range` units.
    fn new_vertices(&mut self, count: usize, range: i64) -> Vec<Vertex> {
        let mut made = Vec::new();
        while made.len() < count {
            let mut number = || (self.random.next() % (range as u64 * 8)) as i64 - range * 4;
            let at = [number(), number()];
            if self.taken.insert(at) {
                made.push(Vertex { at, tag: 0 });
            }
        }
        made
    }

    /// Links the vertices along the list; each one of a skeleton is the child of the one before.
    fn add_links(&mut self, vertices: &[Vertex]) {
        if self.kind.has_links() {
            for ends in vertices.windows(self.width()) {
                let mut ends: Vec<Point> = ends.iter().map(|v| v.at).collect();
                if self.kind == Kind::Skeleton {
                    ends.reverse();
                }
                self.links.push(ends);
            }
        }
    }

    /// Returns the parent of a vertex of a skeleton.
    fn parent_of(&self, at: Point) -> Option<Point> {
        let link = self.links.iter().find(|ends| ends[0] == at);
        link.filter(|_| self.kind == Kind::Skeleton).map(|ends| ends[1])
    }

    fn pick<T: Copy>(list: &[T], choice: usize) -> Option<T> {
        list.get(choice.checked_rem(list.len())?).copied()
    }

    fn pick_object(&self, choice: usize) -> Option<i64> {
        Self::pick(&self.objects.keys().copied().collect::<Vec<_>>(), choice)
    }

    fn pick_vertex(&self, choice: usize) -> Option<Vertex> {
        let all: Vec<Vertex> = self.objects.values().flatten().chain(&self.free).copied().collect();
        Self::pick(&all, choice)
    }

    /// Returns an operation; `None` where it does not apply to this store.
    pub(crate) fn plan_operation(&self, step: Step) -> Option<Planned> {
        let mut new = self.clone();
        let mut made = Vec::new();
        let [a, b, c, d] = step.choices;
        let mut groups_of = None;
        let line = match step.code % 16 {
            0 | 1 => {
                let v = self.pick_vertex(a)?;
                let to = new.new_vertices(1, if b % 4 == 0 { 300 } else { 60 })[0].at;
                new.move_vertex(v.at, to);
                json!({"op": "vertex.move", "vertices": ball_selector(v.at), "to": to_units(to)})
            }
            2 => {
                let v = self.pick_vertex(a)?;
                let tag = (b % 1000) as i64;
                new.vertices_mut()
                    .filter(|vertex| vertex.at == v.at)
                    .for_each(|vertex| vertex.tag = tag);
                json!({"op": "vertex.set", "vertices": ball_selector(v.at), "values": {"tag": tag}})
            }
            3 | 4 => self.plan_add(&mut new, step.choices)?,
            5 | 6 => self.plan_remove(&mut new, a)?,
            7 if self.with_objects => {
                let count = if self.kind == Kind::Line { 2 } else { 1 + a % 6 };
                let vertices = new.new_vertices(count, 120);
                new.add_links(&vertices);
                let mut line = json!({
                    "op": "object.add", "positions": to_positions(&vertices), "attributes": {"tag": vec![0; count]},
                });
                if self.has_links() {
                    let links: Vec<Vec<usize>> = (0..(count + 1).saturating_sub(self.width()))
                        .map(|i| (i..i + self.width()).collect())
                        .collect();
                    line["links"] = json!(links);
                }
                if self.kind == Kind::Skeleton {
                    let parents =
                        (0..count).map(|i| i.checked_sub(1).map_or(Value::Null, |p| json!(p)));
                    line["parents"] = parents.collect();
                }
                made.push(vertices);
                line
            }
            8 if self.objects.len() > 1 => {
                let id = self.pick_object(a)?;
                new.remove_object(id);
                json!({"op": "object.remove", "objects": [id]})
            }
            9 if self.with_objects => {
                let id = self.pick_object(a)?;
                let by = [b, c].map(|choice| (choice % 4000) as i64 - 2000);
                let shift = |at: Point| [at[0] + by[0], at[1] + by[1]];
                let copies: Vec<Vertex> =
                    self.objects[&id].iter().map(|v| Vertex { at: shift(v.at), ..*v }).collect();
                if copies.iter().any(|v| self.taken.contains(&v.at)) {
                    return None;
                }
                new.taken.extend(copies.iter().map(|v| v.at));
                let points: BTreeSet<Point> = self.objects[&id].iter().map(|v| v.at).collect();
                let inner =
                    self.links.iter().filter(|ends| ends.iter().all(|at| points.contains(at)));
                new.links
                    .extend(inner.map(|ends| ends.iter().map(|at| shift(*at)).collect::<Vec<_>>()));
                made.push(copies);
                json!({"op": "object.copy", "object": id, "by": to_units(by)})
            }
            10 if self.objects.len() > 2 && self.kind != Kind::Line => {
                let (into, merged) = (self.pick_object(a)?, self.pick_object(b)?);
                if into == merged {
                    return None;
                }
                let mut line = json!({"op": "object.merge", "objects": [into, merged]});
                let taken = self.objects[&merged].clone();
                if self.kind == Kind::Skeleton {
                    let root = taken.iter().find(|v| self.parent_of(v.at).is_none())?;
                    let parent = Self::pick(&self.objects[&into], c)?.at;
                    new.links.push(vec![root.at, parent]);
                    line["child"] = ball_selector(root.at);
                    line["parent"] = ball_selector(parent);
                }
                for group in new.groups.iter_mut().filter(|group| group.contains(&merged)) {
                    group.insert(into);
                }
                new.remove_id(merged);
                new.objects.entry(into).or_default().extend(taken);
                line
            }
            11 if self.is_chain() => {
                let id = self.pick_object(a)?;
                let count = self.objects[&id].len();
                if count < 2 {
                    return None;
                }
                let at = 1 + b % (count - 1);
                made.push(new.objects.get_mut(&id)?.split_off(at));
                groups_of = Some(id);
                json!({"op": "object.split", "object": id, "at": at})
            }
            11 if matches!(self.kind, Kind::Graph | Kind::Mesh | Kind::PointCloud)
                && self.with_objects =>
            {
                let id = self.pick_object(a)?;
                let v = Self::pick(&self.objects[&id], b)?;
                if self.objects[&id].len() < 2 {
                    return None;
                }
                new.objects.get_mut(&id)?.retain(|vertex| vertex.at != v.at);
                made.push(vec![v]);
                groups_of = Some(id);
                json!({"op": "object.split", "object": id, "take": ball_selector(v.at)})
            }
            12 if self.is_chain() || self.kind == Kind::Line => {
                let id = self.pick_object(a)?;
                new.objects.get_mut(&id)?.reverse();
                json!({"op": "object.reverse", "objects": [id]})
            }
            12 | 13 if self.has_links() => {
                let ends: Vec<Point> = [a, b, c]
                    .into_iter()
                    .take(self.width())
                    .filter_map(|n| Some(self.pick_vertex(n)?.at))
                    .collect();
                let different: BTreeSet<&Point> = ends.iter().collect();
                if ends.len() < self.width() || self.kind == Kind::Mesh && different.len() < 3 {
                    return None;
                }
                new.links.push(ends.clone());
                let ends: Vec<Value> = ends.iter().map(|at| ball_selector(*at)).collect();
                json!({"op": "link.add", "links": [ends]})
            }
            14 if self.has_links() => {
                let ends = self.links[a.checked_rem(self.links.len())?].clone();
                let sorted = |ends: &[Point]| {
                    let mut ends = ends.to_vec();
                    ends.sort_unstable();
                    ends
                };
                new.links.retain(|link| sorted(link) != sorted(&ends));
                let ends: Vec<Value> = ends.iter().map(|at| ball_selector(*at)).collect();
                json!({"op": "link.remove", "links": [ends]})
            }
            15 if self.with_objects => {
                let id = self.pick_object(a)?;
                if self.groups.len() < 3 {
                    new.groups.push(BTreeSet::from([id]));
                    json!({"op": "group.add", "members": [id]})
                } else {
                    let group = b % self.groups.len();
                    let members = &mut new.groups[group];
                    let verb = if d % 2 == 0 { "add" } else { "remove" };
                    let _is_new = if d % 2 == 0 { members.insert(id) } else { members.remove(&id) };
                    json!({"op": "group.members", "group": group, verb: [id]})
                }
            }
            _ => return None,
        };
        Some(Planned { line, new, made, groups_of })
    }

    fn plan_add(&self, new: &mut Self, [a, b, c, _]: [usize; 4]) -> Option<Value> {
        if self.kind == Kind::Line {
            return None;
        }
        let vertex = new.new_vertices(1, if c % 5 == 0 { 300 } else { 60 })[0];
        let mut line = json!({"op": "vertex.add", "positions": [to_units(vertex.at)], "attributes": {"tag": [0]}});
        if !self.with_objects {
            new.free.push(vertex);
            return Some(line);
        }
        let id = self.pick_object(a)?;
        line["object"] = json!(id);
        let list = new.objects.get_mut(&id)?;
        let mut place = list.len();
        match self.kind {
            Kind::Polyline | Kind::Streamline => {
                place = b % (list.len() + 1);
                line["at"] = if place == list.len() { json!("end") } else { json!(place) };
            }
            Kind::Skeleton => {
                let parent = Self::pick(list, b)?.at;
                new.links.push(vec![vertex.at, parent]);
                line["parents"] = json!([ball_selector(parent)]);
            }
            _ => {}
        }
        list.insert(place, vertex);
        Some(line)
    }

    fn plan_remove(&self, new: &mut Self, choice: usize) -> Option<Value> {
        let v = self.pick_vertex(choice)?;
        if self.kind == Kind::Line || self.objects.len() < 2 && self.with_objects {
            return None;
        }
        if !self.with_objects && self.free.len() < 2 {
            return None;
        }
        new.free.retain(|vertex| vertex.at != v.at);
        if self.kind == Kind::Skeleton {
            let parent = self.parent_of(v.at);
            let below = new.links.iter_mut().filter(|ends| ends[1] == v.at);
            let below: Vec<&mut Vec<Point>> = below.collect();
            if parent.is_none() && below.len() > 1 {
                return None; // it would leave several roots
            }
            for ends in below {
                ends[1] = parent.unwrap_or(v.at);
            }
        }
        new.links.retain(|ends| !ends.contains(&v.at));
        for list in new.objects.values_mut() {
            list.retain(|vertex| vertex.at != v.at);
        }
        let empty: Vec<i64> =
            new.objects.iter().filter(|(_, list)| list.is_empty()).map(|(id, _)| *id).collect();
        empty.into_iter().for_each(|id| new.remove_id(id));
        Some(json!({"op": "vertex.remove", "vertices": ball_selector(v.at)}))
    }

    fn vertices_mut(&mut self) -> impl Iterator<Item = &mut Vertex> {
        self.objects.values_mut().flatten().chain(&mut self.free)
    }

    /// Moves a vertex to another position, wherever it is named.
    fn move_vertex(&mut self, from: Point, to: Point) {
        for vertex in self.vertices_mut() {
            vertex.at = if vertex.at == from { to } else { vertex.at };
        }
        for at in self.links.iter_mut().flatten().filter(|at| **at == from) {
            *at = to;
        }
    }

    fn remove_object(&mut self, id: i64) {
        let gone: BTreeSet<Point> =
            self.objects.get(&id).into_iter().flatten().map(|v| v.at).collect();
        self.links.retain(|ends| !ends.iter().any(|at| gone.contains(at)));
        self.remove_id(id);
    }

    /// Removes an id; its vertices are in another object.
    fn remove_id(&mut self, id: i64) {
        self.objects.remove(&id);
        for group in &mut self.groups {
            group.remove(&id);
        }
    }

    /// Applies a planned operation; `ids` are the ids it assigned.
    pub(crate) fn apply_planned(&mut self, planned: Planned, ids: &[i64]) -> anyhow::Result<()> {
        let Planned { line, new, made, groups_of } = planned;
        *self = new;
        let count = made.len();
        ensure!(count == 0 || ids.len() == count, "{line} gave the ids {ids:?}, expected {count}");
        for (id, vertices) in ids.iter().zip(made) {
            ensure!(self.used.insert(*id), "{line} gave the id {id}, which was used before");
            self.objects.insert(*id, vertices);
            let in_group = |group: &&mut BTreeSet<i64>| {
                groups_of.is_some_and(|object| group.contains(&object))
            };
            for group in self.groups.iter_mut().filter(in_group) {
                group.insert(*id);
            }
        }
        Ok(())
    }

    /// Returns lines that check that groups have the members of the model.
    pub(crate) fn group_checks(&self) -> impl Iterator<Item = Value> {
        self.groups
            .iter()
            .enumerate()
            .map(|(number, members)| json!({"op": "expect", "group": number, "members": members}))
    }

    /// Compares the model with a store.
    pub(crate) fn compare(&self, found: &Contents) -> anyhow::Result<()> {
        let ordered = self.is_chain() || self.kind == Kind::Line;
        let list = |vertices: &[Vertex]| -> Vec<(Point, i64)> {
            let mut list: Vec<_> = vertices.iter().map(|v| (v.at, v.tag)).collect();
            if !ordered {
                list.sort_unstable();
            }
            list
        };
        let mut expected: BTreeMap<Option<i64>, Vec<(Point, i64)>> =
            self.objects.iter().map(|(id, vertices)| (Some(*id), list(vertices))).collect();
        if !self.free.is_empty() {
            expected.insert(None, list(&self.free));
        }
        let mut read = found.objects.clone();
        if !ordered {
            read.values_mut().for_each(|list| list.sort_unstable());
        }
        if expected != read {
            let odd =
                expected.keys().chain(read.keys()).find(|id| expected.get(id) != read.get(id));
            let id = odd.copied().flatten();
            bail!("object {id:?} is {:?}, expected {:?}", read.get(&id), expected.get(&id));
        }
        let sorted = |links: &[Vec<Point>]| {
            let mut links: Vec<Vec<Point>> =
                links.iter().map(|ends| self.canonical_ends(ends)).collect();
            links.sort_unstable();
            links
        };
        let (expected, read) = (sorted(&self.links), sorted(&found.links));
        if expected != read {
            let missing: Vec<_> = expected.iter().filter(|ends| !read.contains(ends)).collect();
            let extra: Vec<_> = read.iter().filter(|ends| !expected.contains(ends)).collect();
            bail!("links: {missing:?} are missing, {extra:?} are too many");
        }
        Ok(())
    }

    /// Returns the ends of a link in a canonical order.
    fn canonical_ends(&self, ends: &[Point]) -> Vec<Point> {
        let mut ends = ends.to_vec();
        match self.kind {
            Kind::Mesh => {
                let first = (0..ends.len()).min_by_key(|i| ends[*i]).unwrap_or(0);
                ends.rotate_left(first);
            }
            Kind::Graph => ends.sort_unstable(),
            _ => {}
        }
        ends
    }
}

fn to_units(at: Point) -> [f64; 2] {
    at.map(|x| x as f64 / 4.0)
}

fn to_positions(vertices: &[Vertex]) -> Vec<[f64; 2]> {
    vertices.iter().map(|v| to_units(v.at)).collect()
}

/// Returns a selector of the vertex at a position.
fn ball_selector(at: Point) -> Value {
    json!({"ball": {"center": to_units(at), "radius": 0.05}, "count": 1})
}
