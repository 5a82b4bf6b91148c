//! SWC: trees, a node a line, parents before children, numbered from 1.
//!
//! Edges go from a node to its parent where every node has at most one; other graphs get a root each, and one
//! with a cycle is refused. `radius` and `type` are attributes; without them 0, which the report says.

use std::io::Write;

use super::whole::{Whole, format_coordinate, text};
use super::{Loss, Target, WriteOptions, Writer};
use crate::ConvertError;

pub(crate) fn open<'a>(
    target: Target<'a>,
    options: &WriteOptions,
) -> Result<Box<dyn Writer + 'a>, ConvertError> {
    Ok(super::whole::open(target.into_file("SWC")?, options, "SWC", encode))
}

fn encode(
    whole: &Whole,
    out: &mut Target<'_>,
    _options: &WriteOptions,
) -> Result<Vec<Loss>, ConvertError> {
    let parents = find_parents(whole)?;
    let order = parents_first(&parents);
    let field = |name: &str| {
        whole.batch.fields().iter().find(|field| &*field.name == name && field.column.width() == 1)
    };
    let (radius, kind) = (field("radius"), field("type"));
    writeln!(out, "# id type x y z radius parent")?;
    if let Some(unit) = whole.header.unit() {
        writeln!(out, "# unit {unit}")?;
    }
    let mut numbers = vec![0; order.len()];
    for (row, number) in order.iter().zip(1_u64..) {
        if let Some(place) = numbers.get_mut(*row) {
            *place = number;
        }
    }
    let number = |row: usize| numbers.get(row).copied().unwrap_or(0);
    let positions = whole.batch.positions();
    for row in order {
        let kind = kind.map_or(Ok("0".to_owned()), |field| text(field, row, 0))?;
        write!(out, "{} {kind}", number(row))?;
        for axis in 0..3 {
            write!(out, " {}", format_coordinate(positions, row, axis))?;
        }
        let radius =
            radius.map_or("0".to_owned(), |field| format_coordinate(&field.column, row, 0));
        match parents.get(row).copied().flatten() {
            Some(parent) => writeln!(out, " {radius} {}", number(parent))?,
            None => writeln!(out, " {radius} -1")?,
        }
    }
    let mut losses = Vec::new();
    for (name, known) in [("radius", radius.is_some()), ("type", kind.is_some())] {
        if !known {
            losses.push(Loss::new(format!("there is no {name}: 0 is written")));
        }
    }
    Ok(losses)
}

/// The parent of each node.
fn find_parents(whole: &Whole) -> Result<Vec<Option<usize>>, ConvertError> {
    let edges = whole.edges();
    let mut parents: Vec<Option<usize>> = vec![None; whole.batch.len()];
    let mut directed = !whole.header.kind.is_chain();
    for ([child, parent], _) in &edges {
        match parents.get_mut(*child) {
            Some(slot) if slot.is_none() && child != parent => *slot = Some(*parent),
            _ => directed = false,
        }
    }
    if directed && !has_circle(&parents) {
        return Ok(parents);
    }
    root_trees(whole.batch.len(), &edges)
}

fn has_circle(parents: &[Option<usize>]) -> bool {
    parents_first(parents).len() < parents.len()
}

/// The nodes whose way up ends at a root, each behind its parent; in their order where that is possible.
fn parents_first(parents: &[Option<usize>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(parents.len());
    let mut done = vec![false; parents.len()];
    let mut way = Vec::new();
    for start in 0..parents.len() {
        let mut node = Some(start);
        way.clear();
        while let Some(at) = node.filter(|at| !done.get(*at).copied().unwrap_or(true)) {
            if way.len() > parents.len() {
                break;
            }
            way.push(at);
            node = parents.get(at).copied().flatten();
        }
        if way.len() > parents.len() {
            continue; // it goes in a circle
        }
        for at in way.drain(..).rev() {
            if let Some(flag) = done.get_mut(at) {
                *flag = true;
            }
            order.push(at);
        }
    }
    order
}

/// Trees of edges without direction, each from its first node.
fn root_trees(
    nodes: usize,
    edges: &[([usize; 2], Option<usize>)],
) -> Result<Vec<Option<usize>>, ConvertError> {
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for ([a, b], _) in edges {
        for (from, to) in [(a, b), (b, a)] {
            if let Some(list) = neighbours.get_mut(*from) {
                list.push(*to);
            }
        }
    }
    let mut parents = vec![None; nodes];
    let mut seen = vec![false; nodes];
    let mut kept = 0;
    for root in 0..nodes {
        if seen.get(root).copied().unwrap_or(true) {
            continue;
        }
        let mut stack = vec![root];
        if let Some(flag) = seen.get_mut(root) {
            *flag = true;
        }
        while let Some(node) = stack.pop() {
            for next in neighbours.get(node).into_iter().flatten() {
                if let Some(flag) = seen.get_mut(*next).filter(|flag| !**flag) {
                    *flag = true;
                    if let Some(parent) = parents.get_mut(*next) {
                        *parent = Some(node);
                    }
                    kept += 1;
                    stack.push(*next);
                }
            }
        }
    }
    if kept == edges.len() {
        return Ok(parents);
    }
    let what = format!("a graph with {} edges that close circles", edges.len() - kept);
    Err(ConvertError::NoType { format: "SWC", what, advice: "write GraphML, VTP or PLY" })
}
