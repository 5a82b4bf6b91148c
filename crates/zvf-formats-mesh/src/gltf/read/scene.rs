//! The node tree of a glTF scene: matrices, and an iterative depth-first walk.

use serde_json::Value as Json;
use zvf_error::{Result, format_count};
use zvf_format::Class;
use zvf_formats::{Affine, json_items};

use crate::gltf::read::accessor::{Document, as_index, member};

/// A 4x4 matrix, row by row.
#[derive(Clone, Copy, PartialEq, serde::Serialize)]
pub(crate) struct Matrix([[f64; 4]; 4]);

pub(crate) const IDENTITY: Matrix = Matrix(Affine::IDENTITY.to_matrix());

impl Matrix {
    /// Returns the matrix of a node. An error is the key of a member that does not have its numbers.
    fn from_node(node: &Json) -> Result<Self, &'static str> {
        if let Some(columns) = read_numbers::<16>(node, "matrix")? {
            let mut rows = [[0.0; 4]; 4];
            for (at, value) in columns.into_iter().enumerate() {
                rows[at % 4][at / 4] = value;
            }
            return Ok(Self(rows));
        }
        let translation = read_numbers(node, "translation")?.unwrap_or([0.0; 3]);
        let scale = read_numbers(node, "scale")?.unwrap_or([1.0; 3]);
        let [x, y, z, w] = read_numbers(node, "rotation")?.unwrap_or([0.0, 0.0, 0.0, 1.0]);
        let rotation = [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
        ];
        let mut rows = IDENTITY.0;
        for (row, (axis, offset)) in rows.iter_mut().zip(rotation.iter().zip(translation)) {
            *row = [axis[0] * scale[0], axis[1] * scale[1], axis[2] * scale[2], offset];
        }
        Ok(Self(rows))
    }

    fn multiply(&self, right: &Self) -> Self {
        let mut rows = [[0.0; 4]; 4];
        for (row, own_row) in rows.iter_mut().zip(&self.0) {
            for (column, value) in row.iter_mut().enumerate() {
                *value = own_row.iter().zip(&right.0).map(|(x, cells)| x * cells[column]).sum();
            }
        }
        Self(rows)
    }

    pub(crate) const fn to_affine(self) -> Affine {
        let [a, b, c, _] = self.0;
        Affine([a, b, c])
    }
}

/// Returns the `N` numbers of a member, or `None` if there is no such member. An error is its key.
fn read_numbers<const N: usize>(
    node: &Json,
    key: &'static str,
) -> Result<Option<[f64; N]>, &'static str> {
    let Some(value) = member(node, key) else { return Ok(None) };
    let numbers: Option<Vec<f64>> =
        value.as_array().and_then(|items| items.iter().map(Json::as_f64).collect());
    numbers.and_then(|numbers| numbers.try_into().ok()).map(Some).ok_or(key)
}

/// A node with a mesh, and its world matrix.
pub(crate) struct MeshNode<'a> {
    pub(crate) json: &'a Json,
    pub(crate) mesh: usize,
    pub(crate) matrix: Matrix,
}

impl Document<'_> {
    /// Lists the contents of the document that the reader drops.
    pub(crate) fn list_left_out(&self, mesh_nodes: &[MeshNode<'_>]) -> Vec<String> {
        let dropped_keys = ["materials", "textures", "skins", "animations", "cameras"];
        let mut notes: Vec<String> = dropped_keys
            .iter()
            .filter(|key| !self.array(key).is_empty())
            .map(|key| format!("{} {key}", self.array(key).len()))
            .collect();
        let with_mesh =
            self.array("nodes").iter().filter(|node| member(node, "mesh").is_some()).count();
        if with_mesh > mesh_nodes.len() {
            let nodes = format_count(with_mesh - mesh_nodes.len(), "node");
            notes.push(format!("{nodes} without a scene"));
        }
        let primitives = self.array("meshes").iter().flat_map(|mesh| mesh["primitives"].as_array());
        let morphs =
            primitives.flatten().filter(|primitive| primitive.get("targets").is_some()).count();
        if morphs > 0 {
            notes.push(format!("morph targets of {morphs} primitives"));
        }
        notes
    }
}

/// Lists the nodes with a mesh of the default scene, or of the first, depth first.
pub(crate) fn list_mesh_nodes<'a>(document: &'a Document<'_>) -> Result<Vec<MeshNode<'a>>> {
    let nodes = document.array("nodes");
    let scene = member(&document.json, "scene").map_or(Some(0), as_index);
    let scenes = document.array("scenes");
    let spot = document.file.spot("nodes");
    let scene = match scene.and_then(|at| scenes.get(at)) {
        Some(scene) => scene,
        None if member(&document.json, "scene").is_none() => return Ok(Vec::new()),
        None => {
            let expected = format!("a scene below {}", scenes.len());
            return spot.refuse(Class::OutOfBounds, expected, document.json["scene"].to_string());
        }
    };
    let mut is_visited = vec![false; nodes.len()];
    let mut stack = Vec::new();
    push_children(&mut stack, &scene["nodes"], IDENTITY);
    let mut mesh_nodes = Vec::new();
    while let Some((index, parent_matrix)) = stack.pop() {
        let found = as_index(index).and_then(|at| Some((at, nodes.get(at)?)));
        let Some((at, node)) = found else {
            let expected = format!("a node below {}", nodes.len());
            return spot.refuse(Class::OutOfBounds, expected, index.to_string());
        };
        if let Some(flag) = is_visited.get_mut(at)
            && std::mem::replace(flag, true)
        {
            let expected = "nodes with one parent each".to_owned();
            return spot.refuse(Class::Duplicate, expected, format!("node {at} twice"));
        }
        let own_matrix = Matrix::from_node(node).map_err(|key| {
            let found: String = node[key].to_string().chars().take(120).collect();
            spot.error(Class::BadShape, format!("the numbers of {key} in node {at}"), found)
        })?;
        let matrix = parent_matrix.multiply(&own_matrix);
        if let Some(mesh) = member(node, "mesh") {
            let mesh = spot.need(as_index(mesh), Class::OutOfBounds, "a mesh".to_owned(), mesh)?;
            mesh_nodes.push(MeshNode { json: node, mesh, matrix });
        }
        push_children(&mut stack, &node["children"], matrix);
    }
    Ok(mesh_nodes)
}

fn push_children<'a>(
    stack: &mut Vec<(&'a Json, Matrix)>,
    children: &'a Json,
    parent_matrix: Matrix,
) {
    stack.extend(json_items(children).iter().rev().map(|child| (child, parent_matrix)));
}
