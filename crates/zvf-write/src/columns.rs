//! The columns: the first batch defines them, and all others must have the same.
//!
//! Text becomes codes: a cell of codes is small, and readers return the text. Codes are numbered in
//! the order of first occurrence, and sorted by text when cells are written; only then is the width
//! of a code known.
//!
//! Not here: the location of columns (`cells`, `link`).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_metadata::arrays::Dictionary;
use zvf_metadata::{AttributeSpec, Dtype, DtypeKind};
use zvf_model::{Categories, Column, Field, Kind, Value};

use crate::error::{code_error, count_u32, unfit_error};

/// The properties of one column, also as another process receives them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    dtype: Dtype, // as given
    pub(crate) width: u32,
    categories: Option<Categories>,
    pub(crate) unit: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) categorical: Option<bool>,
    #[serde(rename = "texts")]
    listed: Option<Vec<String>>, // by their codes, from another process
    #[serde(skip)]
    texts: Option<Texts>, // where the type given is text and cells hold codes
}

/// Texts and their provisional codes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Texts {
    codes: HashMap<String, u32>,
}

/// How a column is written.
pub(crate) struct ColumnEncoding {
    pub(crate) dtype: Dtype,
    pub(crate) dictionary: Option<Dictionary>,
    recode: Option<Vec<u32>>, // the final code of each provisional one
}

impl Attribute {
    /// Returns the column as the first batch and the schema define it.
    pub(crate) fn new(field: &Field, spec: Option<&AttributeSpec>, codes_text: bool) -> Self {
        let dtype = field.column.dtype();
        let or_declared = |given: &Option<Arc<str>>, declared: Option<&String>| {
            given.as_deref().map(str::to_owned).or_else(|| declared.cloned())
        };
        let coded = codes_text && dtype.kind == DtypeKind::Text && field.column.width() == 1;
        Self {
            name: field.name.to_string(),
            dtype,
            width: field.column.width(),
            categories: field.categories.clone(),
            unit: or_declared(&field.unit, spec.and_then(|spec| spec.unit.as_ref())),
            description: or_declared(
                &field.description,
                spec.and_then(|spec| spec.description.as_ref()),
            ),
            categorical: spec.filter(|spec| spec.categorical).map(|_| true),
            listed: None,
            texts: coded.then(Texts::default),
        }
    }

    /// Returns the data that another process needs, with the texts so far; later texts get new
    /// codes.
    pub(crate) fn record(&mut self) -> Self {
        let listed = self.texts.as_mut().map(Texts::take);
        Self { listed, ..self.clone() }
    }

    /// Takes the texts that came from another process, if cells hold codes.
    pub(crate) fn take_texts(&mut self) -> Result<Option<Vec<String>>> {
        Column::empty(self.dtype, self.width)?; // a row fits in memory
        self.texts = self.listed.as_ref().map(|_| Texts::default());
        Ok(self.listed.take())
    }

    /// Adds the texts of another process. Returns the local code of each, if cells hold codes.
    pub(crate) fn merge_texts(&mut self, texts: Option<Vec<String>>) -> Result<Option<Vec<u32>>> {
        let Some(texts) = texts else { return Ok(None) };
        let merged = self.texts.get_or_insert_default();
        texts.into_iter().map(|text| merged.code(text)).collect::<Result<_>>().map(Some)
    }

    /// Returns the number of bytes of one stored row.
    pub(crate) fn stride(&self) -> usize {
        match self.texts {
            Some(_) => 4,
            None => row_bytes(self.dtype, self.width),
        }
    }

    /// Returns rows as a column; texts are codes.
    pub(crate) fn own_column(&self, bytes: Bytes) -> Result<Column> {
        let (dtype, width) =
            if self.texts.is_some() { (code_type(4), 1) } else { (self.dtype, self.width) };
        Ok(Column::new(dtype, width, bytes)?)
    }

    /// Returns the column of this attribute in another batch, in the form that is kept until cells
    /// are written.
    pub(crate) fn take(&mut self, kind: Kind, field: &Field) -> Result<Column> {
        let column = &field.column;
        let unfit = |expected: &str, found: &str| {
            unfit_error(kind, format!("the attribute {:?}", &*self.name), expected, found)
        };
        if let Some(texts) = &mut self.texts
            && column.dtype().kind == DtypeKind::Text
            && column.width() == 1
        {
            return texts.encode(column);
        }
        if (column.dtype(), column.width()) != (self.dtype, self.width) {
            let say = |dtype: Dtype, width: u32| format!("{dtype} × {width}");
            return Err(unfit(&say(self.dtype, self.width), &say(column.dtype(), column.width())));
        }
        // More categories after those of the batches before: the codes of these stay what they are.
        if let (Some(new), Some(known)) = (&field.categories, &mut self.categories)
            && new.missing_code() == known.missing_code()
            && new.values().starts_with(known.values())
        {
            *known = new.clone();
        }
        if field.categories != self.categories {
            return Err(unfit("of the categories of the first batch", "others"));
        }
        if let Some(categories) = &field.categories {
            let bad_code = |code| code_error(&self.name, code);
            categories.present(column).map_err(bad_code)?;
        }
        Ok(column.clone())
    }

    /// Returns how it is written, after all batches.
    pub(crate) fn encoding(&self) -> ColumnEncoding {
        if let Some(texts) = &self.texts {
            return texts.encoding();
        }
        let dictionary = self.categories.as_ref().map(|categories| Dictionary {
            categories: categories.values().iter().map(Json::from).collect(),
            ordered: false,
            missing: categories.missing_code(),
        });
        ColumnEncoding { dtype: self.dtype, dictionary, recode: None }
    }
}

impl Texts {
    fn code(&mut self, text: String) -> Result<u32> {
        let next = count_u32("texts of an attribute", self.codes.len())?;
        Ok(*self.codes.entry(text).or_insert(next))
    }

    /// Takes the texts so far, by code.
    fn take(&mut self) -> Vec<String> {
        let mut texts: Vec<(String, u32)> = std::mem::take(&mut self.codes).into_iter().collect();
        texts.sort_unstable_by_key(|(_, code)| *code);
        texts.into_iter().map(|(text, _)| text).collect()
    }

    fn encode(&mut self, column: &Column) -> Result<Column> {
        let mut codes = Vec::with_capacity(column.len() * 4);
        for row in 0..column.len() {
            let Value::Text(text) = column.value(row, 0) else { continue };
            let code = self.code(text)?;
            codes.extend_from_slice(&code.to_le_bytes());
        }
        Ok(Column::new(code_type(4), 1, codes.into())?)
    }

    fn encoding(&self) -> ColumnEncoding {
        let mut texts: Vec<(&String, u32)> =
            self.codes.iter().map(|(t, code)| (t, *code)).collect();
        texts.sort_unstable();
        let mut recode = vec![0; texts.len()];
        for (code, (_, provisional)) in (0_u32..).zip(&texts) {
            recode[usize_from_u32(*provisional)] = code;
        }
        let size = match texts.len() {
            0..=255 => 1,
            256..=65_535 => 2,
            _ => 4,
        };
        let categories = texts.iter().map(|(text, _)| Json::from(text.as_str())).collect();
        let dictionary = Dictionary { categories, ordered: false, missing: None };
        ColumnEncoding {
            dtype: code_type(size),
            dictionary: Some(dictionary),
            recode: Some(recode),
        }
    }
}

impl ColumnEncoding {
    /// Returns the bytes of a cell from the kept ones.
    pub(crate) fn cell(&self, stored: Vec<u8>) -> Bytes {
        let Some(recode) = &self.recode else { return stored.into() };
        let size = saturating_usize(self.dtype.size); // codes have at most 4 bytes
        let (codes, _) = stored.as_chunks::<4>();
        let mut out = Vec::with_capacity(codes.len() * size);
        for code in codes {
            // Each code came from `Texts::code`.
            let code = recode[usize_from_u32(u32::from_le_bytes(*code))];
            out.extend(code.to_le_bytes().iter().take(size));
        }
        out.into()
    }
}

/// Replaces the codes of a column by their values: for arrays that cannot store categories.
pub(crate) fn decode_texts(field: &Field) -> Result<Column> {
    let Some(categories) = &field.categories else { return Ok(field.column.clone()) };
    let texts: Vec<String> = categories.values().iter().map(ToString::to_string).collect();
    let units = texts.iter().map(|text| text.chars().count()).fold(1, usize::max);
    let size = units * 4;
    let dtype = Dtype { kind: DtypeKind::Text, size: to_u64(size), big_endian: false };
    let (width, mut bytes) = (usize_from_u32(field.column.width()), Vec::new());
    for row in 0..field.column.len() {
        for c in 0..width {
            let bad_code = |code| code_error(&field.name, code);
            let value = field.value(row, c).map_err(bad_code)?;
            let text = if value == Value::Null { String::new() } else { value.to_string() };
            bytes.extend_from_slice(&utf32(&text, size));
        }
    }
    Ok(Column::new(dtype, field.column.width(), bytes.into())?)
}

/// Returns text in UTF-32, truncated or zero-padded to `size` bytes.
fn utf32(text: &str, size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    bytes.resize(size, 0);
    bytes
}

/// Returns the bytes of a row of a column of this type, which fits in memory as [`Column`] has
/// checked.
pub(crate) fn row_bytes(dtype: Dtype, width: u32) -> usize {
    saturating_usize(dtype.size) * usize_from_u32(width)
}

const fn code_type(size: u64) -> Dtype {
    Dtype { kind: DtypeKind::UInt, size, big_endian: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Field {
        let bytes = texts.iter().flat_map(|text| utf32(text, 8)).collect::<Vec<_>>();
        let dtype = "<U2".parse::<Dtype>().unwrap();
        Field::new("label", Column::new(dtype, 1, bytes.into()).unwrap())
    }

    #[test]
    fn text_becomes_codes_in_the_order_of_the_text() {
        let mut attribute = Attribute::new(&texts(&[]), None, true);
        let first = attribute.take(Kind::PointCloud, &texts(&["b", "é", "b"])).unwrap();
        let wider = Column::new("<U1".parse::<Dtype>().unwrap(), 1, utf32("a", 4).into()).unwrap();
        let second = attribute.take(Kind::PointCloud, &Field::new("label", wider)).unwrap();
        let encoding = attribute.encoding();
        assert_eq!(encoding.dtype.to_string(), "uint8");
        assert_eq!(encoding.dictionary.as_ref().unwrap().categories, ["a", "b", "é"]);
        assert_eq!(encoding.cell(first.bytes().to_vec())[..], [1, 2, 1]);
        assert_eq!(encoding.cell(second.bytes().to_vec())[..], [0]);
    }

    #[test]
    fn batches_must_agree() {
        let byte = |bytes: Vec<u8>| {
            Column::new("int8".parse::<Dtype>().unwrap(), 1, bytes.into()).unwrap()
        };
        let categories = Categories::new(vec![Value::from("a")], Some(-1));
        let field = Field::new("label", byte(vec![0, 255])).with_categories(categories.clone());
        let mut attribute = Attribute::new(&field, None, true);
        assert!(attribute.take(Kind::Graph, &field).is_ok());
        let dictionary = attribute.encoding().dictionary.unwrap();
        assert_eq!((dictionary.categories[0].as_str(), dictionary.missing), (Some("a"), Some(-1)));
        let wide = Column::new(Dtype::INT64, 1, vec![0; 8].into()).unwrap();
        let mismatched = Field::new("label", byte(vec![3])).with_categories(categories);
        let errors = [
            attribute.take(Kind::Graph, &Field::new("label", wide)),
            attribute.take(Kind::Graph, &Field::new("label", byte(vec![]))),
            attribute.take(Kind::Graph, &mismatched),
        ];
        let messages: Vec<String> = errors.into_iter().map(|e| e.unwrap_err().sentence()).collect();
        assert_eq!(
            messages,
            [
                "a batch of graph: the attribute \"label\": expected int8 × 1, found int64 × 1",
                "a batch of graph: the attribute \"label\": expected of the categories of the first \
                 batch, found others",
                "label: code 3 has no category (of 1)",
            ]
        );
        assert_eq!(decode_texts(&field).unwrap().value(0, 0), Value::from("a"));
        assert_eq!(decode_texts(&field).unwrap().value(1, 0), Value::from(""));
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_code_without_a_text_stops_the_program() {
        let mut attribute = Attribute::new(&texts(&[]), None, true);
        attribute.take(Kind::PointCloud, &texts(&["a"])).unwrap();
        attribute.encoding().cell(1_u32.to_le_bytes().to_vec());
    }
}
