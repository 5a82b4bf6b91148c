//! A query from the words that Python gives.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::de::DeserializeOwned;
use zvf::format::key::ChunkKey;
use zvf::predicate::{ColumnRef, Comparison, Predicate};
use zvf::query::region::{HalfSpace, Region};
use zvf::{Bounds, Columns, LevelId, LevelRule, ObjectId, Query as Native, Value};

use crate::error::{to_py_error, value_error};

/// A question, as data.
#[pyclass(frozen, module = "zvf._zvf")]
pub(crate) struct Query(pub(crate) Native);

type Corners = (Vec<f64>, Vec<f64>);

#[pymethods]
impl Query {
    /// Returns the query that `words` describe; unknown words are refused.
    #[new]
    fn new(py: Python<'_>, words: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut query = Native::all();
        for (word, value) in words {
            let word: String = word.extract()?;
            if value.is_none() {
                continue;
            }
            query = match &*word {
                "box" => query.in_region(parse_box(py, &value)?),
                "half_open_box" => {
                    query.in_region(Region::from(parse_box(py, &value)?).into_half_open())
                }
                "ball" => {
                    let (centre, radius): (Vec<f64>, f64) = value.extract()?;
                    query.in_region(Region::ball(&centre, radius).map_err(|e| to_py_error(py, e))?)
                }
                "half_spaces" => query.in_region(parse_half_spaces(py, value.extract()?)?),
                "prism" => query.in_region(parse_prism(py, value.extract()?)?),
                "mode" => query.mode(choice(&word, &value, "inside, touch, clip, crop, cells")?),
                "objects" => {
                    query.of_objects(value.extract::<Vec<i64>>()?.into_iter().map(ObjectId))
                }
                "groups" => query.in_groups(value.extract::<Vec<u64>>()?),
                "where" => {
                    let text: String = value.extract()?;
                    let condition = text.parse::<Predicate>().map_err(|e| to_py_error(py, e))?;
                    let columns = words.get_item("columns")?;
                    let columns =
                        columns.map(|columns| columns.extract::<Vec<KnownColumn>>()).transpose()?;
                    query.filter(fit(condition, &columns.unwrap_or_default())?)
                }
                "columns" => query, // belongs to the condition
                "attributes" => query.columns(match value.extract::<Vec<String>>()? {
                    names if names.is_empty() => Columns::None,
                    names => Columns::Named(names),
                }),
                "order" => query.order(choice(&word, &value, "storage, objects, original")?),
                "limit" => query.limit(value.extract()?),
                "level" => query.level(level(&value)?),
                "kind" => query.of_kind(
                    value
                        .extract::<String>()?
                        .parse()
                        .map_err(|e: zvf::model::UnknownKind| to_py_error(py, e))?,
                ),
                "chunks" => {
                    let (first, end): (Option<Vec<i64>>, Option<Vec<i64>>) = value.extract()?;
                    let key = |key: Option<Vec<i64>>| {
                        let parsed = key.map(|key| ChunkKey::new(&key)).transpose();
                        parsed.map_err(|error| to_py_error(py, error))
                    };
                    query.in_chunks(key(first)?, key(end)?)
                }
                "unknown_objects" => {
                    query.unknown_ids(choice(&word, &value, "report, skip, error")?)
                }
                "allow_missing" if value.is_truthy()? => query.allow_missing(),
                "object_ids" if value.is_truthy()? => query.with_owners(),
                "increment_only" if value.is_truthy()? => query.increment_only(),
                "uncached" if value.is_truthy()? => query.uncached(),
                "places" if value.is_truthy()? => query.with_places(),
                "places" | "allow_missing" | "object_ids" | "increment_only" | "uncached" => query,
                other => return Err(value_error(format!("a query has no {other:?}"))),
            };
        }
        Ok(Self(query))
    }
}

fn parse_box(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Bounds> {
    let (low, high): Corners = value.extract()?;
    Bounds::new(&low, &high).map_err(|error| to_py_error(py, error))
}

fn parse_half_spaces(py: Python<'_>, spaces: Vec<(Vec<f64>, f64)>) -> PyResult<Region> {
    let spaces: Result<Vec<_>, _> =
        spaces.iter().map(|(normal, offset)| HalfSpace::new(normal, *offset)).collect();
    spaces
        .and_then(|spaces| Region::from_half_spaces(&spaces))
        .map_err(|error| to_py_error(py, error))
}

fn parse_prism(
    py: Python<'_>,
    (outline, axes, (low, high)): (Vec<[f64; 2]>, [usize; 2], Corners),
) -> PyResult<Region> {
    let limits = Bounds::new(&low, &high).map_err(|error| to_py_error(py, error))?;
    Region::prism(&outline, axes, &limits).map_err(|error| to_py_error(py, error))
}

/// A column that a condition may name: scope, name, type (none for codes of categories), and the
/// column that says which rows have a value; its name is empty where the lowest number stands for
/// none.
type KnownColumn = (String, String, Option<String>, Option<String>);

/// Makes comparisons false where a row has no value, as those with NaN are, and refuses those with
/// values of another type.
fn fit(condition: Predicate, columns: &[KnownColumn]) -> PyResult<Predicate> {
    let find = |column: &ColumnRef| {
        let is_it = |known: &&KnownColumn| known.0 == column.scope.word() && known.1 == column.name;
        columns.iter().find(is_it)
    };
    let has_value = |column: &ColumnRef| {
        let validity = find(column)?.3.as_ref()?;
        Some(match &**validity {
            "" => Predicate::Compare(column.clone(), Comparison::Unequal, Value::Int(i64::MIN)),
            name => {
                let flags = ColumnRef { name: name.to_owned(), ..column.clone() };
                Predicate::Compare(flags, Comparison::Equal, Value::Bool(true))
            }
        })
    };
    let fit_all = |conditions: Vec<Predicate>| {
        conditions.into_iter().map(|each| fit(each, columns)).collect::<PyResult<_>>()
    };
    let compared = |column: &ColumnRef, values: &[Value], condition| {
        if let Some((.., Some(dtype), _)) = find(column) {
            values.iter().try_for_each(|value| check_type(column, dtype, value))?;
        }
        Ok(match has_value(column) {
            Some(has_value) => Predicate::All(vec![has_value, condition]),
            None => condition,
        })
    };
    match condition {
        Predicate::Compare(ref column, _, ref value) => {
            compared(column, std::slice::from_ref(value), condition.clone())
        }
        Predicate::In(ref column, ref values) => compared(column, values, condition.clone()),
        Predicate::IsNull(ref column) => Ok(match has_value(column) {
            Some(has_value) => Predicate::Not(Box::new(has_value)),
            None => condition,
        }),
        Predicate::Not(inner) => Ok(Predicate::Not(Box::new(fit(*inner, columns)?))),
        Predicate::All(conditions) => Ok(Predicate::All(fit_all(conditions)?)),
        Predicate::Any(conditions) => Ok(Predicate::Any(fit_all(conditions)?)),
        other => Ok(other),
    }
}

fn check_type(column: &ColumnRef, dtype: &str, value: &Value) -> PyResult<()> {
    let is_number =
        |dtype: &str| ["int", "uint", "float"].iter().any(|kind| dtype.starts_with(kind));
    let (fits, found) = match value {
        Value::Null => return Ok(()),
        Value::Text(_) => (dtype != "bool" && !is_number(dtype), "text"),
        Value::Bool(_) => (dtype == "bool", "a truth value"),
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => (is_number(dtype), "a number"),
    };
    if fits {
        return Ok(());
    }
    let name = &column.name;
    let hint = if dtype == "bool" { "; compare it with true or false" } else { "" };
    Err(value_error(format!(
        "where: {name:?} has values of {dtype}, found {found} ({value}){hint}"
    )))
}

/// Parses one of the `known` values of an argument.
fn choice<T: DeserializeOwned>(what: &str, value: &Bound<'_, PyAny>, known: &str) -> PyResult<T> {
    let word: String = value.extract()?;
    serde_json::from_value(word.as_str().into())
        .map_err(|_unknown| choice_error(what, &word, known))
}

/// Parses a number, or the name of a rule and its number.
fn level(value: &Bound<'_, PyAny>) -> PyResult<LevelRule> {
    let Ok((rule, limit)) = value.extract::<(String, f64)>() else {
        return Ok(LevelRule::Number(LevelId(value.extract()?)));
    };
    let whole = || match limit {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be in range"
        )]
        limit if (0.0..=9_007_199_254_740_992.0).contains(&limit) => Ok(limit as u64),
        limit => Err(value_error(format!("{limit} is no number of {rule}"))),
    };
    Ok(match &*rule {
        "max_vertices" => LevelRule::MaxVertices(whole()?),
        "max_bytes" => LevelRule::MaxBytes(whole()?),
        "max_error" => LevelRule::Error(limit),
        other => {
            return Err(choice_error(
                "the rule of a level",
                other,
                "max_vertices, max_bytes, max_error",
            ));
        }
    })
}

fn choice_error(what: &str, found: &str, known: &str) -> PyErr {
    value_error(format!("{what}: expected one of {known}, found {found:?}"))
}
