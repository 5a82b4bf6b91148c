//! Columns of objects from a table: text with commas or tabs, joined by id or by a column.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use zvf_format::{Class, num};
use zvf_query::predicate::{ColumnRef, Scope};

use crate::append::to_json;
use crate::error::{EditError, Result};
use crate::place::Place;
use crate::scalar::{Scalar, Type};
use crate::script::{commit, open_journal, report};
use crate::transaction::{CommitOptions, Transaction};

/// How a table is joined.
#[derive(Clone, Debug, Default)]
pub struct Join {
    /// The column of the table that says which object a row is of.
    pub key: String,
    /// The column of objects it is compared with; their ids when not given.
    pub on: Option<String>,
    /// The columns wanted; all others when not given.
    pub columns: Option<Vec<String>>,
    /// Put before the names of columns.
    pub prefix: String,
    /// Replace columns of the same name.
    pub replace: bool,
    /// Whether a row without an object is a fault.
    pub strict: bool,
}

/// Adds columns of a table to the objects of a store, in one commit.
///
/// # Errors
///
/// When the table cannot be read, a key is there twice, or a column is there already.
pub fn attach(
    store: impl Into<Place>,
    table: &Path,
    join: &Join,
    options: &CommitOptions,
) -> Result<Json> {
    let own = open_journal(&store.into(), options)?;
    let text = match fs::read(table) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_bad| {
            EditError::new(Class::Encoding, format!("{}: the table is no UTF-8", table.display()))
        })?,
        Err(error) => return Err(EditError::from(error).with_place(&table.to_string_lossy())),
    };
    let tabs = table.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"));
    let mut rows = parse(&text, if tabs { '\t' } else { ',' })?.into_iter();
    let names = rows.next().ok_or_else(|| EditError::invalid("the table is empty"))?;
    let rows: Vec<Vec<String>> = rows.collect();
    if let Some(short) = rows.iter().position(|row| row.len() != names.len()) {
        return Err(EditError::invalid(format!(
            "row {} of the table has {} fields, expected {}",
            short + 1,
            rows[short].len(),
            names.len()
        )));
    }
    let place = |name: &str| {
        names.iter().position(|known| known == name).ok_or_else(|| {
            EditError::invalid(format!(
                "the table has no column {name:?}; it has {}",
                names.join(", ")
            ))
        })
    };
    let key = place(&join.key)?;
    let wanted: Vec<usize> = match &join.columns {
        Some(list) => list.iter().map(|name| place(name)).collect::<Result<_>>()?,
        None => (0..names.len()).filter(|i| *i != key).collect(),
    };
    let mut transaction = Transaction::begin(&own, Path::new("."))?;
    let mut by_key: BTreeMap<String, (usize, u32)> = BTreeMap::new();
    for id in transaction.object_ids() {
        let Some((kind, object)) = transaction.find_object(id) else { continue };
        let text = match &join.on {
            None => id.to_string(),
            Some(on) => {
                let name = on.strip_prefix("object.").unwrap_or(on).to_owned();
                if !transaction.column_exists("object", kind, &name) {
                    return Err(EditError::invalid(format!("objects have no column {name:?}")));
                }
                let column = ColumnRef { scope: Scope::Object, name, index: 0 };
                let value = to_json(&transaction.kinds[kind].object_value(object, &column));
                match value.as_str() {
                    _ if value.is_null() => continue,
                    Some(text) => text.to_owned(),
                    None => value.to_string(),
                }
            }
        };
        if by_key.insert(text.clone(), (kind, object)).is_some() {
            return Err(EditError::invalid(format!("two objects have the key {text}")));
        }
    }
    let mut matched: Vec<((usize, u32), &Vec<String>)> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut unmatched = 0_u64;
    for (n, row) in rows.iter().enumerate() {
        let text = normal(&row[key]);
        if let Some(earlier) = seen.insert(text.clone(), n) {
            return Err(EditError::invalid(format!(
                "rows {} and {} of the table have the same key {text}",
                earlier + 1,
                n + 1
            )));
        }
        match by_key.get(&text) {
            Some(found) => matched.push((*found, row)),
            None if join.strict => {
                return Err(EditError::invalid(format!(
                    "row {} of the table: no object has the key {text}",
                    n + 1
                )));
            }
            None => unmatched += 1,
        }
    }
    for at in wanted {
        let name = format!("{}{}", join.prefix, names[at]);
        let scalar = type_of(rows.iter().map(|row| row[at].as_str()));
        for kind in 0..transaction.kinds.len() {
            if transaction.kinds[kind].objects.is_none() {
                continue;
            }
            if transaction.column_exists("object", kind, &name) {
                if !join.replace {
                    return Err(EditError::invalid(format!(
                        "objects have a column {name:?} already; use --replace or --prefix"
                    )));
                }
                let fields = json!({"scope": "object", "name": name, "kind": transaction.kinds[kind].kind.token()});
                if let Some(fields) = fields.as_object() {
                    transaction.column_drop(fields)?;
                }
            }
            let mut ty = Type::plain(scalar);
            let attrs = json!({"name": name, "dtype": scalar.name()});
            transaction.make_column("object", kind, &name, ty.clone(), ty.sentinel(), attrs)?;
            transaction
                .write_item(format!("column:object:{name}:{}", transaction.kinds[kind].kind));
            for ((of, object), row) in matched.iter().filter(|((of, _), _)| *of == kind) {
                let value = match (scalar, row[at].trim()) {
                    (Scalar::Text(_), text) => json!(text),
                    (_, "") => continue,
                    (Scalar::Int(_), text) => text.parse::<i64>().map_or(Json::Null, Json::from),
                    (Scalar::UInt(_), text) => text.parse::<u64>().map_or(Json::Null, Json::from),
                    (_, text) => json_float(text),
                };
                if let Some(bytes) = ty.encode(&value)? {
                    transaction.kinds[*of].object_mut(*object)?.values.insert(name.clone(), bytes);
                }
            }
        }
    }
    transaction.operations =
        vec![json!({"op": "attach", "table": table.to_string_lossy(), "key": join.key})];
    let mut own_options = options.clone();
    own_options.if_head = Some(transaction.head());
    let committed = commit(&own, transaction, &own_options)?;
    let mut notices = committed.notices;
    if unmatched > 0 {
        notices.push(json!({"code": "rows_without_object", "text": format!("{unmatched} rows of the table have no object")}));
    }
    let commits: Vec<Json> = committed.report.into_iter().collect();
    Ok(report(&own, own.head()?, options.dry_run, &commits, &notices, None))
}

fn json_float(text: &str) -> Json {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() => json!(x),
        Ok(x) if x.is_infinite() => json!(if x > 0.0 { "Infinity" } else { "-Infinity" }),
        _ => json!("NaN"),
    }
}

/// A key as objects have it: numbers without needless signs and zeros.
fn normal(text: &str) -> String {
    let text = text.trim();
    match (text.parse::<i128>(), text.parse::<f64>()) {
        (Ok(n), _) => n.to_string(),
        (_, Ok(x)) if x.is_finite() => json!(x).to_string(),
        _ => text.to_owned(),
    }
}

/// The type that holds all of a column.
fn type_of<'a>(values: impl Iterator<Item = &'a str>) -> Scalar {
    let (mut whole, mut unsigned, mut number, mut longest) = (true, true, true, 1);
    for text in values {
        let text = text.trim();
        longest = longest.max(text.chars().count());
        if text.is_empty() {
            continue;
        }
        whole &= text.parse::<i64>().is_ok();
        unsigned &= text.parse::<u64>().is_ok();
        // A whole number that a float would round, such as an id, stays what it is as text.
        number &= match text.parse::<i128>() {
            Ok(n) => n as f64 as i128 == n,
            Err(_) => text.parse::<f64>().is_ok(),
        };
    }
    match (whole, unsigned, number) {
        (true, ..) => Scalar::Int(8),
        (_, true, _) => Scalar::UInt(8),
        (_, _, true) => Scalar::Float(8),
        _ => Scalar::Text(num::saturating_u32_from_usize(longest)), // shorter than the table
    }
}

/// The fields of a table, with quotes as RFC 4180 has them.
fn parse(text: &str, separator: char) -> Result<Vec<Vec<String>>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rows = Vec::new();
    let (mut row, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            _ if quoted => field.push(c),
            '\r' => {}
            '\n' => {
                row.push(std::mem::take(&mut field));
                if row.len() > 1 || !row[0].is_empty() {
                    rows.push(std::mem::take(&mut row));
                }
                row.clear();
            }
            c if c == separator => row.push(std::mem::take(&mut field)),
            _ => field.push(c),
        }
    }
    if quoted {
        return Err(EditError::invalid("the table ends inside quotes"));
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_a_float_would_round_stay_apart() {
        assert_eq!(normal(" +007 "), "7");
        assert_eq!(normal("18446744073709551615"), "18446744073709551615");
        assert_ne!(normal("9223372036854775809"), normal("9223372036854775810"));
        assert_eq!(normal("1.50"), "1.5");
    }

    #[test]
    fn fields_are_told_apart_as_spreadsheets_write_them() {
        let parsed = |text: &str| parse(text, ',').unwrap();
        assert_eq!(parsed("a,b\n1,\"x, \"\"y\"\"\"\n"), [["a", "b"], ["1", "x, \"y\""]]);
        assert_eq!(parsed("a\r\n1\r\n\r\n2"), [["a"], ["1"], ["2"]]);
        assert!(parse("\"a", ',').is_err());
    }

    #[test]
    fn a_column_has_the_simplest_type_that_holds_it() {
        for (values, scalar) in [
            (&["1", "", "-3"][..], Scalar::Int(8)),
            (&["1", "2.5"][..], Scalar::Float(8)),
            (&["1", "two"][..], Scalar::Text(3)),
            (&["1", "9223372036854775809"][..], Scalar::UInt(8)),
            (&["-1", "9223372036854775809"][..], Scalar::Text(19)),
            (&["-1.5", "1152921504606846977"][..], Scalar::Text(19)),
            (&["-1.5", "1152921504606846976"][..], Scalar::Float(8)),
            (&["-1", "99999999999999999999", "0"][..], Scalar::Text(20)),
        ] {
            assert_eq!(type_of(values.iter().copied()), scalar, "{values:?}");
        }
    }
}
