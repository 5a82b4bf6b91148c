//! Objects given by the coefficients of an equation: planes, lines, spheres, and custom types.
//!
//! They are stored outside the levels, in `parametric`.

use zvf_error::Result;
use zvf_format::num::{f64_from_u64, index_u32, to_u64};
use zvf_metadata::arrays::{
    ArrayAttributes as _, ParametricArray, ParametricType, ParametricTypes,
};
use zvf_metadata::{Dtype, DtypeKind, GroupDoc};
use zvf_store::{Build, DensePlan, RowPlan};

use crate::error::setting_error;

/// Shapes by type, with names.
///
/// ```
/// use zvf_write::ShapeTable;
///
/// let mut shapes = ShapeTable::new();
/// shapes.add(ShapeTable::SPHERE, "ball", &[0.0, 0.0, 0.0, 2.5])?;
/// assert!(shapes.add(ShapeTable::SPHERE, "flat", &[1.0]).is_err());
/// assert_eq!(shapes.len(), 1);
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShapeTable {
    types: ParametricTypes,
    shapes: Vec<(u32, String, Vec<f64>)>, // type, name, coefficients
}

impl Default for ShapeTable {
    fn default() -> Self {
        Self::new()
    }
}

impl ShapeTable {
    /// `A x + B y + C z = D`.
    pub const PLANE: u32 = 0;
    /// A point and a direction.
    pub const LINE: u32 = 1;
    /// A centre and a radius.
    pub const SPHERE: u32 = 2;

    /// Returns an empty list of shapes with the types that every reader knows.
    pub fn new() -> Self {
        let mut table = Self { types: ParametricTypes::default(), shapes: Vec::new() };
        for (name, coefficients) in BUILT_IN {
            table.add_type(name, coefficients);
        }
        table
    }

    /// Adds a type and returns its number.
    pub fn add_type(&mut self, name: &str, coefficients: &[&str]) -> u32 {
        let id = index_u32(self.types.types.len());
        self.types.types.push(ParametricType {
            id: id.into(),
            name: name.to_owned(),
            coefficients: coefficients.iter().map(|c| (*c).to_owned()).collect(),
            ..ParametricType::default()
        });
        id
    }

    /// Adds a shape.
    ///
    /// # Errors
    ///
    /// When there is no such type, or its number of coefficients differs.
    pub fn add(&mut self, type_id: u32, name: &str, coefficients: &[f64]) -> Result<()> {
        let Some(shape_type) = self.types.find(type_id.into()) else {
            return Err(setting_error("the type of a shape", "one that was added", type_id));
        };
        if shape_type.coefficients.len() != coefficients.len() {
            let expected = format!(
                "{} ({})",
                shape_type.coefficients.len(),
                shape_type.coefficients.join(", ")
            );
            let what = "coefficients of a shape";
            return Err(setting_error(what, expected, coefficients.len()));
        }
        self.shapes.push((type_id, name.to_owned(), coefficients.to_vec()));
        Ok(())
    }

    /// Returns the number of shapes.
    pub const fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Writes the group `parametric`.
    pub(crate) async fn write(&self, build: &Build) -> Result<()> {
        let group = GroupDoc::new(self.types.to_attributes());
        build.group("parametric", &group).await?;
        let longest = self.shapes.iter().map(|(.., c)| c.len()).fold(0, usize::max);
        let width = longest + 1;
        let rows = to_u64(self.shapes.len());
        let objects = ParametricArray {
            zv_array: Some("parametric_objects".to_owned()),
            num_objects: Some(rows),
            max_row_length: Some(to_u64(width)),
            dtype: Some("float64".to_owned()),
            ..ParametricArray::default()
        };
        let plan = DensePlan {
            columns: Some(to_u64(width)),
            attributes: objects.to_attributes(),
            ..DensePlan::new(Dtype { kind: DtypeKind::Float, size: 8, big_endian: false })
        };
        let mut sink = build.dense("parametric/objects", plan)?;
        for (type_id, _, coefficients) in &self.shapes {
            let mut row = vec![f64_from_u64((*type_id).into())];
            row.extend(coefficients);
            row.resize(width, f64::NAN);
            let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
            sink.push(&bytes)?;
        }
        sink.finish(|_| {}).await?;
        let names = ParametricArray {
            zv_array: Some("parametric_names".to_owned()),
            num_objects: Some(rows),
            ..ParametricArray::default()
        };
        let plan = RowPlan { attributes: names.to_attributes(), ..RowPlan::default() };
        let mut sink = build.rows("parametric/names", plan)?;
        for (_, name, _) in &self.shapes {
            sink.push(name.as_bytes())?;
        }
        sink.finish(|_| {}).await?;
        Ok(())
    }
}

const BUILT_IN: [(&str, &[&str]); 3] = [
    ("plane", &["A", "B", "C", "D"]),
    ("line", &["x0", "y0", "z0", "dx", "dy", "dz"]),
    ("sphere", &["cx", "cy", "cz", "r"]),
];
