//! Reader of STL: triangles, each with its corners.
//!
//! ```text
//! binary   80 bytes of header, u32 count, then 50 bytes a triangle: normal, three corners, u16 attribute
//! text     solid NAME, facet normal x y z, outer loop, vertex x y z (three), endloop, endfacet, …, endsolid
//! ```
//!
//! A file of exactly 84 + 50 x count bytes is binary, whatever its header says. Each solid is an
//! object. Corners of equal bits become one vertex within a solid, in the order of first use,
//! unless [`ReadOptions::weld`] is off. The file is read twice: normals are left out, and the first
//! pass counts those that differ from the corners; attribute bytes become an attribute of faces if
//! any is not 0. The hash table of the vertices of one solid is kept in memory.

mod facets;

use rustc_hash::FxHashMap;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::saturating_usize;
use zvf_formats::{
    Bytes, FileReader, NamedValues, PieceBuilder, RandomFile, ReadOptions, Spot, UINT16, Values,
    VertexBuilder, default_axes, empty_fields, text_field, without_rows,
};
use zvf_metadata::Dtype;
use zvf_model::flow::{ElementHeader, Header, Piece};
use zvf_model::{Kind, ObjectId};

use crate::stl::read::facets::{Facet, Facets};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let kind = options.kind.unwrap_or(Kind::Mesh);
    if !matches!(kind, Kind::Mesh | Kind::PointCloud) {
        return bytes.spot("the file").refuse(Class::InvalidArgument, "mesh or point_cloud", kind);
    }
    let source = RandomFile::open(bytes, options.memory);
    let source = source.map_err(|error| match error.class() {
        Class::LimitExceeded => error.with_hint("raise --memory-limit"),
        _ => error,
    })?;
    let facets = || Facets::open(source.begin()?, source.len());
    let summary = FileSummary::scan(facets()?)?;
    let mut vertices = empty_vertices(kind);
    let fields = if summary.has_attributes && kind == Kind::Mesh {
        vec![NamedValues::new("attribute_byte_count", UINT16, 1)]
    } else {
        Vec::new()
    };
    let names = text_field("name", &summary.names)?;
    let header = Header {
        object_fields: without_rows(std::slice::from_ref(&names)),
        elements: (kind == Kind::Mesh)
            .then(|| empty_fields(&fields).map(|fields| ElementHeader { width: Some(3), fields }))
            .transpose()?,
        left_out: summary.list_left_out(kind),
        ..vertices.header(default_axes(3))?
    };
    let mut facets = facets()?;
    let mut welder = Welder {
        kind,
        vertex_by_bits: options.weld.then(FxHashMap::default),
        last_facet: [NO_VERTEX; 3],
        max_vertices: saturating_usize(options.memory / WELDED_VERTEX_BYTES),
        vertex_count: 0,
        solid: 0,
    };
    let ids = (0..).map(ObjectId).take(names.column.len()).collect();
    let pieces = PieceBuilder {
        corner_fields: fields,
        last: Some(Piece::Objects { ids, fields: vec![names] }),
        ..PieceBuilder::new(vertices, options)
    };
    Ok(pieces.into_reader(header, move |to| {
        let Some(facet) = facets.next()? else { return Ok(false) };
        welder.push_facet(&facet, to)?;
        Ok(true)
    }))
}

fn empty_vertices(kind: Kind) -> VertexBuilder {
    VertexBuilder::new(kind, Values::new(Dtype::FLOAT32, 3), Vec::new(), true)
}

/// The results of the first pass over a file.
#[derive(Default)]
struct FileSummary {
    names: Vec<String>,
    has_attributes: bool,
    differing_normals: u64, // from the winding
}

impl FileSummary {
    fn scan(mut facets: Facets) -> Result<Self> {
        let mut summary = Self::default();
        while let Some(facet) = facets.next()? {
            summary.has_attributes |= facet.attribute != 0;
            summary.differing_normals += u64::from(facet.normal_differs());
        }
        summary.names = facets.into_names();
        Ok(summary)
    }

    fn list_left_out(&self, kind: Kind) -> Vec<String> {
        let mut all = Vec::new();
        if self.differing_normals > 0 {
            all.push(format!(
                "{} normals that differ from the winding of their faces by more than a degree",
                self.differing_normals
            ));
        }
        if kind == Kind::PointCloud {
            all.push("faces".to_owned());
        }
        all
    }
}

/// Joins equal corners.
struct Welder {
    kind: Kind,
    vertex_by_bits: Option<FxHashMap<[u32; 3], i64>>, // of this solid
    last_facet: [KeyedVertex; 3], // the vertices of the last facet, which often shares an edge
    max_vertices: usize,          // of a solid
    vertex_count: i64,            // of all solids so far
    solid: i64,
}

impl Welder {
    fn push_facet(&mut self, facet: &Facet, to: &mut PieceBuilder) -> Result<()> {
        if facet.solid != self.solid {
            self.solid = facet.solid;
            self.last_facet = [NO_VERTEX; 3];
            if let Some(vertex_by_bits) = &mut self.vertex_by_bits {
                vertex_by_bits.clear();
            }
        }
        let [a, b, c] = facet.corners;
        let vertices = &mut to.vertices;
        self.last_facet = [
            self.find_vertex(a, vertices)?,
            self.find_vertex(b, vertices)?,
            self.find_vertex(c, vertices)?,
        ];
        if self.kind == Kind::Mesh {
            to.corners.push_triangle(self.last_facet.map(|(_, vertex)| vertex));
            for field in &mut to.corner_fields {
                field.values.push_bytes(&facet.attribute.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Returns the vertex at `corner`, and adds a new one if there is none.
    fn find_vertex(&mut self, corner: [f32; 3], to: &mut VertexBuilder) -> Result<KeyedVertex> {
        let bits = corner.map(|x| if x == 0.0 { 0 } else { x.to_bits() });
        if let Some(vertex_by_bits) = &mut self.vertex_by_bits {
            if let Some(vertex) = self.last_facet.iter().find(|(known_bits, _)| *known_bits == bits)
            {
                return Ok(*vertex);
            }
            if let Some(vertex) = vertex_by_bits.get(&bits) {
                return Ok((bits, *vertex));
            }
            if vertex_by_bits.len() >= self.max_vertices {
                let expected = format!("at most {} vertices in a solid", self.max_vertices);
                let spot = Spot::new("STL", format!("solid {}", self.solid));
                let spot = spot.hint("allow more memory, or do not weld vertices");
                return spot.refuse(Class::LimitExceeded, expected, "more of them");
            }
            vertex_by_bits.insert(bits, self.vertex_count);
        }
        for x in corner {
            to.positions.push_bytes(&x.to_le_bytes());
        }
        to.end_row(Some(ObjectId(self.solid)), 0);
        let vertex = self.vertex_count;
        self.vertex_count += 1;
        Ok((bits, vertex))
    }
}

/// The bits of a position, and its vertex.
type KeyedVertex = ([u32; 3], i64);

/// A key that no corner has, since coordinates are finite.
const NO_VERTEX: KeyedVertex = ([u32::MAX; 3], 0);
/// Memory of a vertex in the hash table.
const WELDED_VERTEX_BYTES: u64 = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden;

    #[test]
    fn golden_files() {
        golden::check_files("stl", &ReadOptions::default());
    }

    #[test]
    fn keeps_corners_apart_without_welding() {
        let path = golden::folder("stl").join("ascii.stl");
        let options = ReadOptions { weld: false, ..ReadOptions::default() };
        let read = golden::Collected::read(&path, &options).unwrap();
        assert_eq!((read.positions.len(), read.elements.len()), (36 * 3, 36));
    }

    #[test]
    fn refuses_a_hash_table_beyond_the_memory_limit() {
        let path = golden::folder("stl").join("ascii.stl");
        let options = ReadOptions { memory: 5 * WELDED_VERTEX_BYTES, ..ReadOptions::default() };
        let error = golden::Collected::read(&path, &options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "LimitExceeded in STL, solid 0: expected at most 5 vertices in a solid, found more of them; \
             allow more memory, or do not weld vertices"
        );
    }
}
