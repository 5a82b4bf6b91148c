//! A mesh as a corner table: the opposite corner and the vertex of each.
//!
//! Corners `3 k`, `3 k + 1` and `3 k + 2` are those of face `k`. Missing corners and vertices are
//! [`NONE`], and every function of [`NONE`] returns [`NONE`].

use zvf_format::num::usize_from_u32;

/// No corner, no vertex.
pub(crate) const NONE: u32 = u32::MAX;

/// Returns the next corner of the same face. Does not overflow: [`NONE`] follows the last corner of
/// the last face.
pub(crate) const fn next(corner: u32) -> u32 {
    match corner {
        NONE => NONE,
        _ if corner % 3 == 2 => corner.wrapping_sub(2),
        _ => corner.wrapping_add(1),
    }
}

/// Returns the previous corner of the same face. Does not overflow, as in [`next`].
pub(crate) const fn previous(corner: u32) -> u32 {
    match corner {
        NONE => NONE,
        _ if corner.is_multiple_of(3) => corner.wrapping_add(2),
        _ => corner.wrapping_sub(1),
    }
}

/// Converts to an index; [`NONE`] is past the end of every table.
pub(crate) const fn index(number: u32) -> usize {
    usize_from_u32(number)
}

/// Corners with their opposites and vertices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Corners {
    pub(crate) opposite: Vec<u32>,
    pub(crate) vertex: Vec<u32>,
    /// One corner of each vertex: at a boundary of the mesh the leftmost one.
    pub(crate) left_most: Vec<u32>,
}

impl Corners {
    pub(crate) fn opposite(&self, corner: u32) -> u32 {
        self.opposite.get(index(corner)).copied().unwrap_or(NONE)
    }

    pub(crate) fn vertex(&self, corner: u32) -> u32 {
        self.vertex.get(index(corner)).copied().unwrap_or(NONE)
    }

    pub(crate) fn left_most(&self, vertex: u32) -> u32 {
        self.left_most.get(index(vertex)).copied().unwrap_or(NONE)
    }

    /// Returns the corner of the same vertex in the face to the left.
    pub(crate) fn swing_left(&self, corner: u32) -> u32 {
        next(self.opposite(next(corner)))
    }

    /// Returns the corner of the same vertex in the face to the right.
    pub(crate) fn swing_right(&self, corner: u32) -> u32 {
        previous(self.opposite(previous(corner)))
    }

    /// Returns whether a vertex is at a boundary of the mesh.
    pub(crate) fn is_at_edge(&self, vertex: u32) -> bool {
        self.swing_left(self.left_most(vertex)) == NONE
    }

    /// Cuts the mesh along seams: a vertex on a seam becomes one vertex per side.
    ///
    /// Returns `None` if corners meet in an invalid way.
    pub(crate) fn cut(&self, seams: &[bool]) -> Option<Self> {
        let mut on_seam = vec![false; self.left_most.len()];
        let mut cut = Self {
            opposite: self.opposite.clone(),
            vertex: vec![NONE; self.vertex.len()],
            left_most: Vec::new(),
        };
        for (corner, _) in (0_u32..).zip(seams).filter(|(_, is_seam)| **is_seam) {
            *cut.opposite.get_mut(index(corner))? = NONE;
            for end in [next(corner), previous(corner)] {
                *on_seam.get_mut(index(self.vertex(end)))? = true;
            }
        }
        for (first, is_on_seam) in self.left_most.iter().zip(on_seam) {
            if *first == NONE {
                continue;
            }
            let mut first = *first;
            if is_on_seam {
                first = cut.leftmost_of(first)?;
            }
            let mut vertex = cut.add_vertex(first)?;
            *cut.vertex.get_mut(index(first))? = vertex;
            let mut corner = self.swing_right(first);
            while corner != NONE && corner != first {
                if seams.get(index(next(corner))).copied()? {
                    vertex = cut.add_vertex(corner)?;
                }
                *cut.vertex.get_mut(index(corner))? = vertex;
                corner = self.swing_right(corner);
            }
        }
        Some(cut)
    }

    /// Returns the leftmost corner around a vertex on a seam; `None` if swinging left returns to
    /// the start.
    fn leftmost_of(&self, start: u32) -> Option<u32> {
        let mut first = start;
        let mut corner = self.swing_left(start);
        while corner != NONE {
            if corner == start {
                return None;
            }
            first = corner;
            corner = self.swing_left(corner);
        }
        Some(first)
    }

    fn add_vertex(&mut self, corner: u32) -> Option<u32> {
        let vertex = u32::try_from(self.left_most.len()).ok()?;
        self.left_most.push(corner);
        Some(vertex)
    }
}

/// The order in which the faces of a mesh are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    DepthFirst,
    /// Visits faces first whose vertices have more known neighbours.
    Degree,
}

/// The vertices of a mesh in the order in which they are visited first.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    /// The corner at which each value was visited first.
    pub(crate) corners: Vec<u32>,
    /// The value of each vertex.
    pub(crate) value_of_vertex: Vec<u32>,
}

impl Sequence {
    /// Visits all faces of `mesh`; returns `None` if a corner has no vertex.
    pub(crate) fn visit(mesh: &Corners, order: Visit) -> Option<Self> {
        let faces = mesh.vertex.len() / 3;
        let mut walk = Walk {
            mesh,
            seen_faces: vec![false; faces],
            sequence: Self {
                corners: Vec::with_capacity(mesh.left_most.len()),
                value_of_vertex: vec![NONE; mesh.left_most.len()],
            },
            degree: Vec::new(),
        };
        if order == Visit::Degree {
            walk.degree = vec![0; mesh.left_most.len()];
        }
        for corner in (0..).step_by(3).take(faces) {
            match order {
                Visit::DepthFirst => walk.go_deep(corner)?,
                Visit::Degree => walk.go_by_degree(corner)?,
            }
        }
        Some(walk.sequence)
    }
}

struct Walk<'a> {
    mesh: &'a Corners,
    seen_faces: Vec<bool>,
    sequence: Sequence,
    degree: Vec<u32>, // how often an unvisited vertex was met
}

impl Walk<'_> {
    /// Returns whether the face of a corner was visited or does not exist.
    fn is_seen(&self, corner: u32) -> bool {
        corner == NONE || self.seen_faces.get(index(corner / 3)).copied().unwrap_or(true)
    }

    fn mark_seen(&mut self, corner: u32) {
        if let Some(is_seen) = self.seen_faces.get_mut(index(corner / 3)) {
            *is_seen = true;
        }
    }

    /// Visits the vertex of a corner; returns whether it is new.
    fn visit(&mut self, corner: u32) -> Option<bool> {
        let value = u32::try_from(self.sequence.corners.len()).ok()?;
        let value_slot = self.sequence.value_of_vertex.get_mut(index(self.mesh.vertex(corner)))?;
        if *value_slot != NONE {
            return Some(false);
        }
        *value_slot = value;
        self.sequence.corners.push(corner);
        Some(true)
    }

    fn go_deep(&mut self, start: u32) -> Option<()> {
        if self.is_seen(start) {
            return Some(());
        }
        let mut open = vec![start];
        self.visit(next(start))?;
        self.visit(previous(start))?;
        while let Some(corner) = open.last().copied() {
            if self.is_seen(corner) {
                open.pop();
                continue;
            }
            let mut corner = corner;
            loop {
                self.mark_seen(corner);
                let right = self.mesh.opposite(next(corner));
                if self.visit(corner)? && !self.mesh.is_at_edge(self.mesh.vertex(corner)) {
                    if right == NONE {
                        return None; // an interior vertex has faces all around
                    }
                    corner = right;
                    if self.is_seen(corner) {
                        break;
                    }
                    continue;
                }
                let left = self.mesh.opposite(previous(corner));
                match (self.is_seen(left), self.is_seen(right)) {
                    (true, true) => {
                        open.pop();
                        break;
                    }
                    (false, true) => corner = left,
                    (true, false) => corner = right,
                    (false, false) => {
                        if let Some(top) = open.last_mut() {
                            *top = left;
                        }
                        open.push(right);
                        break;
                    }
                }
            }
        }
        Some(())
    }

    fn go_by_degree(&mut self, start: u32) -> Option<()> {
        if self.is_seen(start) {
            return Some(());
        }
        let mut open: [Vec<u32>; 3] = [vec![start], Vec::new(), Vec::new()];
        let mut best = 0_usize;
        for corner in [next(start), previous(start), start] {
            self.visit(corner)?;
        }
        while let Some(at) =
            (best..open.len()).find(|at| open.get(*at).is_some_and(|list| !list.is_empty()))
        {
            best = at;
            let mut corner = open.get_mut(at)?.pop()?;
            if self.is_seen(corner) {
                continue;
            }
            loop {
                self.mark_seen(corner);
                self.visit(corner)?;
                let right = self.mesh.opposite(next(corner));
                let left = self.mesh.opposite(previous(corner));
                let (right_seen, left_seen) = (self.is_seen(right), self.is_seen(left));
                if !left_seen {
                    let priority = self.priority(left)?;
                    if right_seen && priority <= best {
                        corner = left;
                        continue;
                    }
                    open.get_mut(priority)?.push(left);
                    best = best.min(priority);
                }
                if !right_seen {
                    let priority = self.priority(right)?;
                    if priority <= best {
                        corner = right;
                        continue;
                    }
                    open.get_mut(priority)?.push(right);
                    best = best.min(priority);
                }
                break;
            }
        }
        Some(())
    }

    /// Returns the priority of a face: 0 if its vertex is known, 1 if the vertex was met before, 2
    /// otherwise.
    fn priority(&mut self, corner: u32) -> Option<usize> {
        let vertex = index(self.mesh.vertex(corner));
        if *self.sequence.value_of_vertex.get(vertex)? != NONE {
            return Some(0);
        }
        let degree = self.degree.get_mut(vertex)?;
        *degree = degree.checked_add(1)?;
        Some(if *degree > 1 { 1 } else { 2 })
    }
}
