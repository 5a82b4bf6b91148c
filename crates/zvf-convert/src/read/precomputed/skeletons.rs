//! Skeletons: vertices, edges and attributes of each object.
//!
//! ```text
//! u32 vertices, u32 edges; positions f32[n][3]; edges u32[m][2]; then each attribute of `info`, without padding
//! ```
//!
//! A skeleton is a tree here, so a folder with a forest or a cycle in it is a graph: all objects are looked at
//! before the first is reported. Edges of trees are turned from child to parent, the first vertex being the root.

use serde_json::{Map, Value as Json};
use zvf_format::Class;
use zvf_format::num::nearest_f32;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Elements, Field, Kind, ObjectId};

use super::folder::{Folder, bad};
use super::properties::property_type;
use super::shards::Sharding;
use super::{Objects, describe_objects, record, u32_at};
use crate::ConvertError;
use crate::read::roles::axes;
use crate::read::values::{column, no_batch};
use crate::read::{ElementHeader, Header, Piece, ReadOptions, Reader, Space};

/// An attribute of vertices.
#[derive(Clone, Debug)]
struct Attribute {
    name: String,
    dtype: Dtype,
    width: u32,
}

pub(super) fn open(
    folder: &Folder,
    info: &Map<String, Json>,
    properties: Option<&Map<String, Json>>,
    options: &ReadOptions,
) -> Result<Reader, ConvertError> {
    if info.contains_key("annotation_type") {
        let found = "that of skeletons beside an annotation_type";
        return Err(bad(Class::BadTag, "info @type", "neuroglancer_annotations_v1", found).into());
    }
    let attributes = attributes(info)?;
    let transform = transform(info)?;
    let sharding = Sharding::parse(info.get("sharding"), "info")?;
    let objects = Objects::list(folder, sharding)?.only(options.segments.as_deref())?;
    let stated = transform.unwrap_or(IDENTITY);
    let is_applied = options.apply_space;
    let shape = Shape { attributes, transform: if is_applied { stated } else { IDENTITY } };
    let kind = match options.kind {
        Some(kind @ (Kind::Graph | Kind::Skeleton | Kind::PointCloud)) => kind,
        Some(kind) => {
            let expected = "skeleton, graph or point_cloud";
            return Err(bad(Class::Unsupported, "the folder", expected, kind.to_string()).into());
        }
        None => shape.kind(&objects)?,
    };
    let mut header = Header::new(kind, axes(3), column(Dtype::FLOAT32, 3, Vec::new())?);
    if is_applied || stated == IDENTITY {
        header = header.with_unit("nanometer");
    }
    let fields = shape.attributes.iter().map(|attribute| {
        let empty = column(attribute.dtype, attribute.width, Vec::new())?;
        Ok(Field::new(attribute.name.as_str(), empty))
    });
    header.fields = fields.collect::<Result<_, ConvertError>>()?;
    header.elements =
        kind.has_links().then(|| ElementHeader { width: Some(2), fields: Vec::new() });
    if transform.is_none() {
        header.left_out.push("a transform: info has none, so there is none to apply".to_owned());
    }
    let [a, b, c] = stated;
    let affine = Some([a, b, c, [0.0, 0.0, 0.0, 1.0]]);
    header.space = Some(Space { name: None, affine, is_applied });
    record(&mut header, Some(info));
    let ids: Vec<u64> = objects.ids().collect();
    let last = describe_objects("segment_id", &ids, properties, &mut header)?;
    let batch_rows = options.batch_rows.max(1);
    let mut pieces = Pieces { objects, shape, kind, next: 0, last: Some(last), batch_rows };
    Ok(Reader::from_steps(header, move || pieces.step()))
}

fn attributes(info: &Map<String, Json>) -> Result<Vec<Attribute>, ConvertError> {
    let mut known: Vec<Attribute> = Vec::new();
    let list = info.get("vertex_attributes").and_then(Json::as_array);
    for (at, said) in list.into_iter().flatten().enumerate() {
        let place = format!("info vertex_attributes[{at}]");
        let name = said.get("id").and_then(Json::as_str).unwrap_or_default().to_owned();
        let said_type = said.get("data_type").and_then(Json::as_str).unwrap_or_default();
        let Some((dtype, 1)) = property_type(said_type) else {
            let expected = "float32, or a whole number of at most 32 bits";
            return Err(bad(Class::BadTag, &place, expected, format!("{said_type:?}")).into());
        };
        let width = said.get("num_components").and_then(Json::as_u64).unwrap_or(0);
        let Some(width) = u32::try_from(width).ok().filter(|w| (1..=MAX_COMPONENTS).contains(w))
        else {
            let expected = format!("1 to {MAX_COMPONENTS} components");
            return Err(bad(Class::LimitExceeded, &place, expected, width.to_string()).into());
        };
        if known.iter().any(|other| other.name == name) {
            return Err(bad(Class::Duplicate, &place, "each name once", format!("{name:?}")).into());
        }
        known.push(Attribute { name, dtype, width });
    }
    Ok(known)
}

/// From what is stored to nanometres.
pub(super) fn transform(info: &Map<String, Json>) -> Result<Option<[[f64; 4]; 3]>, ConvertError> {
    let Some(said) = info.get("transform").filter(|said| !said.is_null()) else { return Ok(None) };
    let numbers: Option<Vec<f64>> =
        said.as_array().and_then(|list| list.iter().map(Json::as_f64).collect());
    let rows =
        numbers.filter(|numbers| numbers.len() == 12 && numbers.iter().all(|x| x.is_finite()));
    let rows = rows.and_then(|numbers| <[[f64; 4]; 3]>::try_from(numbers.as_chunks::<4>().0).ok());
    rows.map(Some).ok_or_else(|| {
        let found: String = said.to_string().chars().take(60).collect();
        bad(Class::BadShape, "info transform", "12 numbers", found).into()
    })
}

/// What all skeletons of a folder have in common.
struct Shape {
    attributes: Vec<Attribute>,
    transform: [[f64; 4]; 3],
}

/// One skeleton, as it is stored.
struct Skeleton<'a> {
    vertices: usize,
    positions: &'a [u8],
    edges: Vec<[usize; 2]>,
    attributes: Vec<&'a [u8]>,
}

impl Shape {
    /// Takes one apart; its length must fit exactly.
    fn parse<'a>(&self, name: &str, bytes: &'a [u8]) -> Result<Skeleton<'a>, ConvertError> {
        if bytes.len() < 8 {
            let expected = "two counts of 32 bits";
            return Err(bad(Class::Truncated, name, expected, bytes.len().to_string()).into());
        }
        let (vertices, edges) = (u64::from(u32_at(bytes, 0)), u64::from(u32_at(bytes, 4)));
        let strides = self.attributes.iter().map(|a| u64::from(a.width) * a.dtype.size);
        let each = strides.clone().sum::<u64>() + 12;
        let wanted = u128::from(vertices) * u128::from(each) + u128::from(edges) * 8 + 8;
        if wanted != bytes.len() as u128 {
            let class =
                if wanted > bytes.len() as u128 { Class::Truncated } else { Class::Trailing };
            let expected = format!("{wanted} bytes for {vertices} vertices and {edges} edges");
            return Err(bad(class, name, expected, bytes.len().to_string()).into());
        }
        let (vertices, edges) = (vertices as usize, edges as usize);
        let (positions, rest) = bytes[8..].split_at(vertices * 12);
        let (links, mut rest) = rest.split_at(edges * 8);
        let mut pairs = Vec::with_capacity(edges);
        for (at, pair) in links.chunks_exact(8).enumerate() {
            let pair = [u32_at(pair, 0) as usize, u32_at(pair, 4) as usize];
            if let Some(beyond) = pair.iter().find(|end| **end >= vertices) {
                let place = format!("{name}, edge {at}");
                let expected = format!("a vertex below {vertices}");
                return Err(bad(Class::OutOfBounds, &place, expected, beyond.to_string()).into());
            }
            pairs.push(pair);
        }
        let mut attributes = Vec::with_capacity(self.attributes.len());
        for stride in strides {
            let (own, after) = rest.split_at(vertices * stride as usize);
            attributes.push(own);
            rest = after;
        }
        Ok(Skeleton { vertices, positions, edges: pairs, attributes })
    }

    /// A skeleton where every object is one tree, otherwise a graph.
    fn kind(&self, objects: &Objects) -> Result<Kind, ConvertError> {
        for at in 0..objects.places.len() {
            let Some((_, name, bytes)) = objects.read(at)? else { break };
            let skeleton = self.parse(&name, &bytes)?;
            if parents(&skeleton).is_none() {
                return Ok(Kind::Graph);
            }
        }
        Ok(Kind::Skeleton)
    }

    /// Positions in nanometres.
    fn place(&self, positions: &[u8], to: &mut Vec<u8>) {
        if self.transform == IDENTITY {
            to.extend_from_slice(positions);
            return;
        }
        for place in positions.as_chunks::<12>().0 {
            let stored = [0, 4, 8].map(|at| f64::from(f32::from_bits(u32_at(place, at))));
            for [a, b, c, d] in self.transform {
                let x = a * stored[0] + b * stored[1] + c * stored[2] + d;
                to.extend_from_slice(&nearest_f32(x).to_le_bytes());
            }
        }
    }

    /// How much longer lengths become.
    fn scale(&self) -> f64 {
        let [a, b, c] = self.transform;
        let cross =
            [b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]];
        (a[0] * cross[0] + a[1] * cross[1] + a[2] * cross[2]).abs().cbrt()
    }
}

/// For each edge whether it has to be turned to go from child to parent; nothing where it is no single tree.
fn parents(skeleton: &Skeleton<'_>) -> Option<Vec<bool>> {
    if skeleton.vertices == 0 || skeleton.edges.len() + 1 != skeleton.vertices {
        return (skeleton.vertices == 0 && skeleton.edges.is_empty()).then(Vec::new);
    }
    let mut beside: Vec<Vec<usize>> = vec![Vec::new(); skeleton.vertices];
    for (at, [a, b]) in skeleton.edges.iter().enumerate() {
        beside[*a].push(at);
        beside[*b].push(at);
    }
    let mut turned = vec![false; skeleton.edges.len()];
    let mut seen = vec![false; skeleton.vertices];
    let (mut open, mut count) = (vec![0], 1);
    seen[0] = true;
    while let Some(parent) = open.pop() {
        for at in &beside[parent] {
            let [a, b] = skeleton.edges[*at];
            let child = if a == parent { b } else { a };
            if !seen[child] {
                seen[child] = true;
                count += 1;
                turned[*at] = a == parent;
                open.push(child);
            }
        }
    }
    (count == skeleton.vertices).then_some(turned)
}

/// A folder in the course of being read.
struct Pieces {
    objects: Objects,
    shape: Shape,
    kind: Kind,
    next: usize,
    last: Option<Piece>, // what is said of objects
    batch_rows: usize,
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        let (mut positions, mut rows, mut owners) = (Vec::new(), Vec::new(), Vec::new());
        let mut values: Vec<Vec<u8>> = vec![Vec::new(); self.shape.attributes.len()];
        while owners.len() < self.batch_rows {
            let Some((id, name, bytes)) = self.objects.read(self.next)? else { break };
            let skeleton = self.shape.parse(&name, &bytes)?;
            let turned = match self.kind {
                Kind::Skeleton => parents(&skeleton).ok_or_else(|| {
                    let found =
                        format!("{} edges of {} vertices", skeleton.edges.len(), skeleton.vertices);
                    let bad = bad(Class::Unsupported, &name, format!("one tree of {id}"), found);
                    bad.with_hint("read it with --kind graph")
                })?,
                _ => vec![false; skeleton.edges.len()],
            };
            let base = owners.len();
            self.shape.place(skeleton.positions, &mut positions);
            for ([a, b], turned) in skeleton.edges.iter().zip(turned) {
                let (a, b) = if turned { (*b, *a) } else { (*a, *b) };
                rows.extend([base + a, base + b]);
            }
            let scale = self.shape.scale();
            for ((to, from), attribute) in
                values.iter_mut().zip(&skeleton.attributes).zip(&self.shape.attributes)
            {
                let is_length = attribute.name == "radius" && attribute.dtype == Dtype::FLOAT32;
                if is_length && (scale - 1.0).abs() > f64::EPSILON {
                    for radius in from.as_chunks::<4>().0 {
                        let radius = f64::from(f32::from_le_bytes(*radius)) * scale;
                        to.extend_from_slice(&nearest_f32(radius).to_le_bytes());
                    }
                } else {
                    to.extend_from_slice(from);
                }
            }
            let object = ObjectId(i64::try_from(self.next).unwrap_or(i64::MAX));
            owners.resize(base + skeleton.vertices, Some(object));
            self.next += 1;
        }
        if owners.is_empty() {
            return Ok(self.last.take());
        }
        let mut batch = Batch::new(self.kind, column(Dtype::FLOAT32, 3, positions)?);
        for (attribute, bytes) in self.shape.attributes.iter().zip(values) {
            let column = column(attribute.dtype, attribute.width, bytes)?;
            let field = Field::new(attribute.name.as_str(), column);
            batch = batch.with_field(field).map_err(no_batch)?;
        }
        batch = batch.with_vertex_objects(owners).map_err(no_batch)?;
        if self.kind.has_links() {
            let elements = Elements::new(2, rows).map_err(no_batch)?;
            batch = batch.with_elements(elements).map_err(no_batch)?;
        }
        Ok(Some(Piece::Vertices(batch)))
    }
}

pub(super) const IDENTITY: [[f64; 4]; 3] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
const MAX_COMPONENTS: u32 = 4096;
