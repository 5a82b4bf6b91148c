//! STL: triangles, each with its corners.
//!
//! ```text
//! binary   80 bytes of header, u32 count, then 50 bytes a triangle: normal, three corners, u16 attribute
//! text     solid NAME, facet normal x y z, outer loop, vertex x y z (three), endloop, endfacet, …, endsolid
//! ```
//!
//! A file of exactly 84 + 50 x count bytes is binary, whatever its header says. Each solid is an object. Corners
//! of equal bits become one vertex within a solid, in the order of first use, unless
//! [`ReadOptions::weld`] is off. The file is read twice: normals are left out, and the first pass counts those
//! that do not follow from the corners; attribute bytes become an attribute of faces where one is not 0.
//! What is held is the table of vertices of one solid.

mod facets;

use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::Dtype;
use zvf_model::{Field, Kind, ObjectId};

use self::facets::{Facet, Facets};
use super::geometry::{UINT16, WholeFile, text_field};
use super::input::Bytes;
use super::polygon::Corners;
use super::record::Vertices;
use super::roles::axes;
use super::values::{NamedValues, Values, empty_all};
use super::{ElementHeader, Format, Header, Piece, Polygons, ReadOptions, Reader};
use crate::ConvertError;
use crate::error::{BadInput, Place};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    let kind = options.kind.unwrap_or(Kind::Mesh);
    if !matches!(kind, Kind::Mesh | Kind::PointCloud) {
        let place = Place::Named("the file".to_owned());
        let found = kind.to_string();
        let bad = bytes.bad(Class::InvalidArgument, place, "mesh or point_cloud", found);
        return Err(bad.into());
    }
    let source = Source::new(bytes, options)?;
    let seen = Seen::scan(source.open()?)?;
    let mut vertices = empty_vertices(kind);
    let fields = if seen.attributes && kind == Kind::Mesh {
        vec![NamedValues::new("attribute_byte_count", UINT16, 1)]
    } else {
        Vec::new()
    };
    let names = text_field("name", &seen.names)?;
    let header = Header {
        object_fields: vec![names.with_column(names.column.slice(0..0))],
        elements: (kind == Kind::Mesh)
            .then(|| empty_all(&fields).map(|fields| ElementHeader { width: Some(3), fields }))
            .transpose()?,
        left_out: seen.left_out(kind),
        ..vertices.header(axes(3))?
    };
    let mut pieces = Pieces {
        facets: source.open()?,
        kind,
        vertices,
        corners: Corners::new(Polygons::Same),
        fields,
        welded: options.weld.then(FxHashMap::default),
        recent: [NO_VERTEX; 3],
        max_welded: usize::try_from(options.memory / WELDED_VERTEX_BYTES).unwrap_or(usize::MAX),
        count: 0,
        solid: 0,
        batch_rows: options.batch_rows.max(1),
        names: Some(names),
        ended: false,
    };
    Ok(Reader::from_steps(header, move || pieces.step()))
}

fn empty_vertices(kind: Kind) -> Vertices {
    Vertices::new(kind, Values::new(Dtype::FLOAT32, 3), Vec::new(), true)
}

/// Bytes that can be read twice.
enum Source {
    Path(PathBuf),
    Memory(Arc<[u8]>),
}

impl Source {
    fn new(bytes: Bytes, options: &ReadOptions) -> Result<Self, ConvertError> {
        Ok(match bytes.path() {
            Some(path) if path.is_file() => Self::Path(path.to_owned()),
            _ => Self::Memory(WholeFile::read(bytes, options)?.bytes.into()),
        })
    }

    fn open(&self) -> Result<Facets, ConvertError> {
        let (mut bytes, length) = match self {
            Self::Path(path) => {
                let length = std::fs::metadata(path).map_err(ConvertError::Read)?.len();
                (Bytes::open(path)?, length)
            }
            Self::Memory(all) => {
                let length = to_u64(all.len());
                (Bytes::new(Box::new(std::io::Cursor::new(Arc::clone(all))), None), length)
            }
        };
        bytes.is(Format::Stl);
        Facets::open(bytes, length)
    }
}

/// What a first pass over a file finds.
#[derive(Debug, Default)]
struct Seen {
    names: Vec<String>,
    attributes: bool,
    normals: u64, // that differ from the winding
}

impl Seen {
    fn scan(mut facets: Facets) -> Result<Self, ConvertError> {
        let mut seen = Self::default();
        while let Some(facet) = facets.next()? {
            seen.attributes |= facet.attribute != 0;
            seen.normals += u64::from(facet.normal_differs());
        }
        seen.names = facets.into_names();
        Ok(seen)
    }

    fn left_out(&self, kind: Kind) -> Vec<String> {
        let mut all = Vec::new();
        if self.normals > 0 {
            all.push(format!(
                "{} normals that differ from the winding of their faces by more than a degree",
                self.normals
            ));
        }
        if kind == Kind::PointCloud {
            all.push("faces".to_owned());
        }
        all
    }
}

/// A file in the course of being read.
struct Pieces {
    facets: Facets,
    kind: Kind,
    vertices: Vertices,
    corners: Corners,
    fields: Vec<NamedValues>,
    welded: Option<FxHashMap<[u32; 3], i64>>, // the vertices of this solid by their bits
    recent: [KeyedVertex; 3], // those of the facet before, which often has an edge in common
    max_welded: usize,
    count: i64, // vertices so far
    solid: usize,
    batch_rows: usize,
    names: Option<Field>,
    ended: bool,
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        while !self.ended
            && self.vertices.rows() < self.batch_rows
            && self.corners.rows() < self.batch_rows
        {
            match self.facets.next()? {
                Some(facet) => self.push_facet(&facet)?,
                None => self.ended = true,
            }
        }
        if self.vertices.rows() > 0 {
            return self.vertices.take().map(Some); // before the faces that name them
        }
        if self.corners.rows() > 0 {
            return self.corners.take(&mut self.fields).map(Some);
        }
        let Some(names) = self.names.take() else { return Ok(None) };
        let ids = (0..names.column.len()).filter_map(|id| i64::try_from(id).ok()).map(ObjectId);
        Ok(Some(Piece::Objects { ids: ids.collect(), fields: vec![names] }))
    }

    fn push_facet(&mut self, facet: &Facet) -> Result<(), ConvertError> {
        if facet.solid != self.solid {
            self.solid = facet.solid;
            self.recent = [NO_VERTEX; 3];
            if let Some(welded) = &mut self.welded {
                welded.clear();
            }
        }
        let [a, b, c] = facet.corners;
        self.recent = [self.find_vertex(a)?, self.find_vertex(b)?, self.find_vertex(c)?];
        if self.kind == Kind::Mesh {
            self.corners.push_triangle(self.recent.map(|(_, vertex)| vertex));
            for field in &mut self.fields {
                field.values.push_bytes(&facet.attribute.to_le_bytes());
            }
        }
        Ok(())
    }

    /// The vertex at `corner`, a new one where there is none yet.
    fn find_vertex(&mut self, corner: [f32; 3]) -> Result<KeyedVertex, ConvertError> {
        let bits = corner.map(|x| if x == 0.0 { 0 } else { x.to_bits() });
        if let Some(welded) = &mut self.welded {
            if let Some(known) = self.recent.iter().find(|(other, _)| *other == bits) {
                return Ok(*known);
            }
            if let Some(vertex) = welded.get(&bits) {
                return Ok((bits, *vertex));
            }
            if welded.len() >= self.max_welded {
                let expected = format!("at most {} vertices in a solid", self.max_welded);
                let place = Place::Named(format!("solid {}", self.solid));
                let bad =
                    BadInput::new(Class::LimitExceeded, "STL", place, expected, "more of them");
                let hint = "allow more memory, or do not weld vertices";
                return Err(bad.with_hint(hint).into());
            }
            welded.insert(bits, self.count);
        }
        for x in corner {
            self.vertices.positions.push_bytes(&x.to_le_bytes());
        }
        let solid = i64::try_from(self.solid).unwrap_or(i64::MAX);
        self.vertices.end_row(Some(ObjectId(solid)), 0);
        let vertex = self.count;
        self.count += 1;
        Ok((bits, vertex))
    }
}

/// The bits of a place, and the vertex there.
type KeyedVertex = ([u32; 3], i64);

/// Bits that no corner has: coordinates are finite.
const NO_VERTEX: KeyedVertex = ([u32::MAX; 3], 0);
/// Memory of a vertex in the table.
const WELDED_VERTEX_BYTES: u64 = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::golden;

    #[test]
    fn golden_files() {
        golden::check("stl");
    }

    #[test]
    fn corners_may_stay_apart() {
        let path = golden::folder("stl").join("ascii.stl");
        let options = ReadOptions { weld: false, ..ReadOptions::default() };
        let read = golden::Collected::read(&path, &options).unwrap();
        assert_eq!((read.positions.len(), read.elements.len()), (36 * 3, 36));
    }

    #[test]
    fn a_table_too_large_is_refused() {
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
