//! Reader of glTF and GLB: a tree of nodes that place meshes of points, lines and triangles.
//!
//! ```text
//! scene -> nodes (matrices) -> meshes -> primitives -> accessors -> views -> buffers
//! ```
//!
//! The default scene, or the first, is walked depth first. Positions are transformed to world space in `float64`,
//! or keep their bytes if every matrix is the identity. Each primitive at each node is an object with the name of
//! the node. A mirroring matrix reverses the winding, which is restored. Triangles make a mesh, lines a graph, points
//! a point cloud: one kind is read at a time. Attributes keep their types (`COLOR_0`, `_NAME`). Buffers are in the
//! file or in files of the same folder.
//!
//! Not read: materials, textures, skins, animations, cameras, nodes of no scene. A node with two parents is refused.

mod accessor;
mod scene;

use serde_json::{Value as Json, json};
use zvf_error::{Result, format_count};
use zvf_format::Class;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_formats::{
    Bytes, FLOAT64, FileReader, ReadOptions, WholeFile, WholeGeometry, fan, missing_number,
    new_column, number_column, text_field,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, Field, Kind, ObjectId};

use crate::gltf::read::accessor::{Document, DracoMesh, member};
use crate::gltf::read::scene::{IDENTITY, MeshNode};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let file = WholeFile::read(bytes, options)?;
    let document = Document::parse(&file, options)?;
    let nodes = scene::list_mesh_nodes(&document)?;
    build_geometry(&document, &nodes, options)?.into_reader("glTF", options)
}

/// A primitive of a mesh.
#[derive(Debug)]
struct Primitive {
    mode: u64,
    positions: Column,
    attributes: Vec<(String, Column)>,
    /// The vertices of points, lines or triangles, `width` for each.
    elements: Vec<u32>,
    width: u32,
}

impl Primitive {
    const fn kind(&self) -> Kind {
        match self.width {
            1 => Kind::PointCloud,
            2 => Kind::Graph,
            _ => Kind::Mesh,
        }
    }
}

/// Reads primitive `at` of mesh `mesh`.
fn read_primitive(
    document: &Document<'_>,
    mesh: usize,
    at: usize,
    primitive: &Json,
) -> Result<Primitive> {
    let place = || format!("meshes[{mesh}].primitives[{at}]");
    let spot = document.file.spot(place());
    let mode = member(primitive, "mode").map_or(Some(4), Json::as_u64);
    let found = &primitive["mode"];
    let mode = spot.need(mode.filter(|mode| *mode <= 6), Class::BadTag, "mode 0 to 6", found)?;
    let compressed = &primitive["extensions"]["KHR_draco_mesh_compression"];
    let draco = match compressed.is_object() {
        true => Some(document.decode_draco(compressed, &place())?),
        false => None,
    };
    let mut positions = None;
    let mut attributes = Vec::new();
    for (name, index) in primitive["attributes"].as_object().into_iter().flatten() {
        if name.starts_with("JOINTS_") || name.starts_with("WEIGHTS_") {
            continue;
        }
        let mut decoded = draco.iter().flat_map(|draco| &draco.attributes);
        let values = match decoded.find(|(key, _)| key == name) {
            Some((_, values)) => values.clone(),
            None => document.read_accessor(index, &place())?,
        };
        if name == "POSITION" {
            positions = Some(values);
        } else {
            attributes.push((name.clone(), values));
        }
    }
    let expected = "an attribute POSITION";
    let positions = spot.need(positions, Class::NotFound, expected, "none".to_owned())?;
    let found = positions.width().to_string();
    spot.ensure(positions.width() == 3, Class::BadShape, "positions of three numbers", found)?;
    for (name, values) in &attributes {
        let found = format_args!("{} values of {name}", values.len());
        let expected = format_args!("{} as there are positions", positions.len());
        spot.ensure(values.len() == positions.len(), Class::CountMismatch, expected, found)?;
    }
    let indices = match (draco, member(primitive, "indices")) {
        (Some(DracoMesh { faces: Some(faces), .. }), _) => faces,
        (Some(_), _) if mode == 0 => Vec::new(), // points need no indices
        (Some(_), _) => {
            let found = "a point cloud".to_owned();
            return spot.refuse(Class::NotFound, "faces in the Draco stream", found);
        }
        (None, Some(index)) => document.read_indices(index, &place())?,
        (None, None) => {
            let count = u32::try_from(positions.len()).map_err(|_too_many| {
                let expected = format!("at most {} positions", u32::MAX);
                spot.error(Class::LimitExceeded, &expected, positions.len().to_string())
            })?;
            (0..count).collect()
        }
    };
    if let Some(outside) =
        indices.iter().find(|index| usize::try_from(**index).is_ok_and(|i| i >= positions.len()))
    {
        let expected = format!("indices below {}", positions.len());
        return spot.refuse(Class::OutOfBounds, &expected, outside.to_string());
    }
    let (width, elements) = expand_indices(mode, &indices);
    let expected = format_args!("a multiple of {width} indices for mode {mode}");
    let elements = spot.need(elements, Class::BadShape, expected, indices.len().to_string())?;
    Ok(Primitive { mode, positions, attributes, elements, width })
}

/// Returns the width and the vertices of the points, lines or triangles of a mode: strips, loops and fans are
/// expanded. Returns `None` if the count of the indices does not fit the mode.
fn expand_indices(mode: u64, indices: &[u32]) -> (u32, Option<Vec<u32>>) {
    let pairs = || indices.windows(2).flatten().copied();
    let triples = indices.array_windows().enumerate();
    match mode {
        0 => (1, Some(indices.to_vec())),
        1 => (2, indices.len().is_multiple_of(2).then(|| indices.to_vec())),
        2 => {
            let closing = [indices.last(), indices.first()].into_iter().flatten().copied();
            let closing = closing.filter(|_| indices.len() > 1);
            (2, Some(pairs().chain(closing).collect()))
        }
        3 => (2, Some(pairs().collect())),
        4 => (3, indices.len().is_multiple_of(3).then(|| indices.to_vec())),
        5 => {
            let oriented = |(at, [a, b, c]): (usize, &[u32; 3])| match at % 2 {
                1 => [*a, *c, *b],
                _ => [*a, *b, *c],
            };
            (3, Some(triples.flat_map(oriented).collect()))
        }
        _ => (3, Some(fan(indices).flat_map(|[first, a, b]| [a, b, first]).collect())),
    }
}

/// A primitive with the matrix of its node.
struct Instance<'a> {
    id: i64,
    node: &'a MeshNode<'a>,
    primitive: &'a Primitive,
}

impl<'a> Instance<'a> {
    fn extras(&self) -> &'a Json {
        &self.node.json["extras"]
    }
}

fn build_geometry(
    document: &Document<'_>,
    nodes: &[MeshNode<'_>],
    options: &ReadOptions,
) -> Result<WholeGeometry> {
    let meshes = document.array("meshes");
    let mut read: Vec<Option<Vec<Primitive>>> = meshes.iter().map(|_| None).collect();
    for node in nodes {
        let Some(primitives) = meshes.get(node.mesh).and_then(|mesh| mesh["primitives"].as_array())
        else {
            let expected = format!("a mesh below {}", meshes.len());
            let found = node.mesh.to_string();
            return document.file.spot("nodes").refuse(Class::OutOfBounds, expected, found);
        };
        if read[node.mesh].is_none() {
            let all = primitives.iter().enumerate();
            let all = all.map(|(at, primitive)| read_primitive(document, node.mesh, at, primitive));
            read[node.mesh] = Some(all.collect::<Result<_, _>>()?);
        }
    }
    let placed = nodes.iter().flat_map(|node| {
        let primitives = read[node.mesh].iter().flatten();
        primitives.map(move |primitive| (node, primitive))
    });
    let instances =
        (0..).zip(placed).map(|(id, (node, primitive))| Instance { id, node, primitive });
    let mut instances: Vec<Instance<'_>> = instances.collect();
    assign_ids(&mut instances);
    let has = |kind: &Kind| instances.iter().any(|instance| instance.primitive.kind() == *kind);
    let kinds = [Kind::Mesh, Kind::Graph, Kind::PointCloud].into_iter().filter(has);
    let kinds: Vec<Kind> = kinds.collect();
    let kind = options.kind.or(kinds.first().copied()).unwrap_or(Kind::Mesh);
    let read_kind = match kind {
        Kind::Mesh | Kind::PointCloud => kind,
        _ => Kind::Graph,
    };
    if !kinds.is_empty() && !kinds.contains(&read_kind) && read_kind != Kind::PointCloud {
        let found = kinds.iter().map(|kind| kind.token()).collect::<Vec<_>>().join(", ");
        let expected = format!("a {kind}");
        return document.file.spot("the scene").refuse(Class::InvalidArgument, expected, found);
    }
    instances.retain(|instance| instance.primitive.kind() == read_kind || kinds.len() == 1);
    let mut geometry = join_instances(document, &instances, read_kind, options)?;
    geometry.header.other_kinds = kinds.into_iter().filter(|kind| *kind != read_kind).collect();
    geometry.header.left_out.extend(document.list_left_out(nodes));
    let objects = instances.iter().map(|Instance { id, node, primitive }| {
        json!({"id": id, "mode": primitive.mode, "matrix": node.matrix})
    });
    let record = json!({"asset": document.json["asset"], "objects": objects.collect::<Vec<_>>()});
    geometry.header.records.push(("gltf".to_owned(), record));
    Ok(geometry)
}

/// Sets the ids from `extras.object_id` of the nodes, if all have one and they are unique.
fn assign_ids(instances: &mut [Instance<'_>]) {
    let ids: Option<Vec<i64>> =
        instances.iter().map(|instance| instance.extras()["object_id"].as_i64()).collect();
    let Some(ids) = ids else { return };
    let mut unique_ids = std::collections::HashSet::new();
    if ids.iter().all(|id| unique_ids.insert(*id)) {
        instances.iter_mut().zip(ids).for_each(|(instance, id)| instance.id = id);
    }
}

/// Returns a field for the name and for each key of the extras whose values are numbers or text in
/// all nodes; a note names the others.
fn build_object_fields(
    instances: &[Instance<'_>],
    left_out: &mut Vec<String>,
) -> Result<Vec<Field>> {
    let name = |instance: &Instance<'_>| {
        instance.node.json["name"].as_str().unwrap_or_default().to_owned()
    };
    let names: Vec<String> = instances.iter().map(name).collect();
    let mut fields = vec![text_field("name", &names)?];
    let extras = instances.iter().filter_map(|instance| instance.extras().as_object());
    let keys: std::collections::BTreeSet<&String> =
        extras.flat_map(|extras| extras.keys()).collect();
    for key in keys {
        if key == "object_id" || key == "name" {
            continue;
        }
        let values: Vec<&Json> = instances.iter().map(|instance| &instance.extras()[key]).collect();
        let integers: Option<Vec<i64>> = values.iter().map(|value| value.as_i64()).collect();
        let floats: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
        let texts: Option<Vec<String>> =
            values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
        let number = |column| Field::new(key.as_str(), column);
        if let Some(integers) = integers {
            let column = number_column(Dtype::INT64, 1, &integers, |n| n.to_le_bytes())?;
            fields.push(number(column));
        } else if let Some(floats) = floats {
            fields.push(number(number_column(FLOAT64, 1, &floats, |x| x.to_le_bytes())?));
        } else if let Some(texts) = texts {
            fields.push(text_field(key, &texts)?);
        } else {
            left_out.push(format!("extras {key:?}: not every node has a number there, or a text"));
        }
    }
    Ok(fields)
}

fn join_instances(
    document: &Document<'_>,
    instances: &[Instance<'_>],
    kind: Kind,
    options: &ReadOptions,
) -> Result<WholeGeometry> {
    let keeps_bytes = instances.iter().all(|instance| {
        instance.node.matrix == IDENTITY && instance.primitive.positions.dtype() == Dtype::FLOAT32
    });
    // Instances share their mesh, so that the sums can be larger than any memory: they are compared with the limit.
    let sum = |len: &dyn Fn(&Primitive) -> usize| {
        let lengths = instances.iter().map(|instance| to_u64(len(instance.primitive)));
        lengths.fold(0, u64::saturating_add)
    };
    let vertices = sum(&|primitive| primitive.positions.len());
    let elements = sum(&|primitive| primitive.elements.len());
    if vertices.saturating_mul(64).saturating_add(elements.saturating_mul(8)) > options.memory {
        let expected = format!("at most {} bytes of geometry", options.memory);
        let found = format!("{vertices} vertices");
        return document.file.spot("the scene").refuse(Class::LimitExceeded, expected, found);
    }
    let (mut positions, mut rows, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = 0_u64;
    for instance in instances {
        let (points, affine) = (&instance.primitive.positions, instance.node.matrix.to_affine());
        if keeps_bytes {
            positions.extend_from_slice(points.bytes());
        } else {
            for row in 0..points.len() {
                let local = [0, 1, 2].map(|axis| points.float(row, axis).unwrap_or(f64::NAN));
                let world = affine.apply(local);
                positions.extend(world.iter().flat_map(|x| x.to_le_bytes()));
            }
        }
        let is_mirrored = kind == Kind::Mesh && affine.determinant() < 0.0;
        let width = usize_from_u32(instance.primitive.width);
        for element in instance.primitive.elements.chunks(width) {
            let vertex = |index: &u32| u64::from(*index) + first;
            match element {
                [a, b, c] if is_mirrored => rows.extend([a, c, b].map(vertex)),
                all => rows.extend(all.iter().map(vertex)),
            }
        }
        owners.extend(std::iter::repeat_n(Some(ObjectId(instance.id)), points.len()));
        first += to_u64(points.len());
    }
    let dtype = if keeps_bytes { Dtype::FLOAT32 } else { FLOAT64 };
    let points = new_column(dtype, 3, positions)?;
    let mut geometry = join_attributes(instances, WholeGeometry::new(kind, points, Vec::new())?)?;
    geometry.batch = geometry.batch.with_vertex_objects(owners)?;
    geometry.header = geometry.header.with_unit("meter");
    if kind != Kind::PointCloud {
        let width = if kind == Kind::Mesh { 3 } else { 2 };
        geometry.elements =
            Some((number_column(Dtype::INT64, width, &rows, |row| row.to_le_bytes())?, Vec::new()));
    }
    geometry.objects = instances.iter().map(|instance| ObjectId(instance.id)).collect();
    geometry.object_fields = build_object_fields(instances, &mut geometry.header.left_out)?;
    Ok(geometry)
}

/// Joins the attributes of all instances. An instance without an attribute gets NaN, or 0 if the
/// type is not a float; a note counts them.
fn join_attributes(
    instances: &[Instance<'_>],
    mut geometry: WholeGeometry,
) -> Result<WholeGeometry> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in instances.iter().flat_map(|instance| &instance.primitive.attributes) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        let find = |instance: &Instance<'_>| {
            let found = instance.primitive.attributes.iter().find(|(key, _)| key == name);
            found.map(|(_, values)| values.clone())
        };
        let Some(first) = instances.iter().find_map(find) else { continue };
        let (mut bytes, mut missing_count, mut mismatch_count) = (Vec::new(), 0, 0);
        for instance in instances {
            let is_same_type = |values: &Column| {
                (values.dtype(), values.width()) == (first.dtype(), first.width())
            };
            match find(instance) {
                Some(values) if is_same_type(&values) => bytes.extend_from_slice(values.bytes()),
                found => {
                    let count = instance.primitive.positions.len();
                    let row = missing_number(first.dtype()).repeat(usize_from_u32(first.width()));
                    bytes.extend_from_slice(&row.repeat(count));
                    if found.is_some() { mismatch_count += 1 } else { missing_count += 1 }
                }
            }
        }
        if missing_count > 0 {
            let value = if first.dtype().kind == DtypeKind::Float { "NaN" } else { "0" };
            let objects = format_count(missing_count, "object");
            let note = format!("{name} is {value} for {objects} without a value");
            geometry.header.notes.push(note);
        }
        if mismatch_count > 0 {
            let objects = format_count(mismatch_count, "object");
            let note = format!("{name} of {objects}, where it has another type");
            geometry.header.left_out.push(note);
        }
        let field = Field::new(name, new_column(first.dtype(), first.width(), bytes)?);
        geometry.batch = geometry.batch.with_field(field)?;
    }
    Ok(geometry)
}

#[cfg(test)]
mod tests;
