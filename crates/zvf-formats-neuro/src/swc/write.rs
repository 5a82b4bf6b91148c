//! Writer of SWC: trees, a node a line, parents before children, numbered from 1.
//!
//! Edges go from a node to its parent where every node has at most one. Other graphs get a root for each component, and
//! a graph with a cycle is refused. A missing attribute `radius` or `type` is written as 0 and reported. Lengths become
//! micrometres.

use std::io::Write;

use zvf_error::{Result, format_count};
use zvf_formats::{
    CollectedInput, Encoded, Millimeters, Target, cannot_hold, format_coordinate, format_value,
    owner_ids,
};
use zvf_model::flow::Loss;

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let parents = find_parents(input)?;
    let mut order = sort_parents_first(&parents);
    // Trees are numbered in this order: it is that of their objects.
    let mut owners = owner_ids(&input.batch);
    for row in &order {
        owners[*row] = parents[*row].map_or(owners[*row], |parent| owners[parent]);
    }
    order.sort_by_key(|row| owners[*row]);
    let field = |name: &str| {
        input.batch.fields().iter().find(|field| &*field.name == name && field.column.width() == 1)
    };
    let (radius, kind) = (field("radius"), field("type"));
    writeln!(out, "# id type x y z radius parent")?;
    let lengths = Millimeters::micrometers(&input.header);
    if let Some(unit) = input.header.unit() {
        writeln!(out, "# unit {}", if lengths.is_known() { "micrometer" } else { unit })?;
    }
    let radius = radius.map(|field| lengths.convert_column(&field.column)).transpose()?;
    let mut numbers = vec![0; order.len()];
    for (row, number) in order.iter().zip(1_u64..) {
        numbers[*row] = number;
    }
    let positions = lengths.convert_column(input.batch.positions())?;
    for row in order {
        let kind = kind.map_or(Ok("0".to_owned()), |field| format_value(field, row, 0))?;
        write!(out, "{} {kind}", numbers[row])?;
        for axis in 0..3 {
            write!(out, " {}", format_coordinate(&positions, row, axis))?;
        }
        let radius = radius.as_ref().map_or("0".to_owned(), |r| format_coordinate(r, row, 0));
        match parents[row] {
            Some(parent) => writeln!(out, " {radius} {}", numbers[parent])?,
            None => writeln!(out, " {radius} -1")?,
        }
    }
    let mut losses = Vec::new();
    for (name, has_field) in [("radius", radius.is_some()), ("type", kind.is_some())] {
        if !has_field {
            losses.push(Loss::new(format!("{name} is missing: 0 is written")));
        }
    }
    Ok(input.report(losses))
}

/// Returns the parent of each node.
fn find_parents(input: &CollectedInput) -> Result<Vec<Option<usize>>> {
    let edges = input.edges();
    let mut parents: Vec<Option<usize>> = vec![None; input.batch.len()];
    let mut is_directed = !input.header.kind.is_chain();
    for ([child, parent], _) in &edges {
        match parents.get_mut(*child) {
            Some(slot) if slot.is_none() && child != parent => *slot = Some(*parent),
            _ => is_directed = false,
        }
    }
    if is_directed && !has_cycle(&parents) {
        return Ok(parents);
    }
    root_trees(input.batch.len(), &edges)
}

fn has_cycle(parents: &[Option<usize>]) -> bool {
    sort_parents_first(parents).len() < parents.len()
}

/// Returns the nodes that lead to a root, each after its parent, otherwise in their order. Nodes of a cycle are left out.
fn sort_parents_first(parents: &[Option<usize>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(parents.len());
    let mut done = vec![false; parents.len()];
    let mut path = Vec::new();
    for start in 0..parents.len() {
        let mut node = Some(start);
        path.clear();
        while let Some(at) = node.filter(|at| !done[*at] && path.len() <= parents.len()) {
            path.push(at);
            node = parents[at];
        }
        if path.len() > parents.len() {
            continue; // the path leads into a cycle
        }
        for at in path.drain(..).rev() {
            done[at] = true;
            order.push(at);
        }
    }
    order
}

/// Orients the edges of trees, each tree from its first node, and returns the parent of each node.
fn root_trees(nodes: usize, edges: &[([usize; 2], Option<usize>)]) -> Result<Vec<Option<usize>>> {
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for ([a, b], _) in edges {
        neighbours[*a].push(*b);
        neighbours[*b].push(*a);
    }
    let mut parents = vec![None; nodes];
    let mut visited = vec![false; nodes];
    let mut tree_edges = 0;
    for root in 0..nodes {
        if std::mem::replace(&mut visited[root], true) {
            continue;
        }
        let mut stack = vec![root];
        while let Some(node) = stack.pop() {
            for next in &neighbours[node] {
                if !std::mem::replace(&mut visited[*next], true) {
                    parents[*next] = Some(node);
                    tree_edges += 1;
                    stack.push(*next);
                }
            }
        }
    }
    if tree_edges == edges.len() {
        return Ok(parents);
    }
    let closing = format_count(edges.len() - tree_edges, "edge");
    let what = format!("a graph with cycles, closed by {closing}");
    Err(cannot_hold("SWC", what, "write GraphML, VTP or PLY"))
}
