//! Files with one fault each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::Value as Json;
use zvf_convert::ConvertError;
use zvf_convert::read::Polygons;

use crate::facts::{Facts, in_words};
use crate::{Outcome, read_format};

pub(crate) fn check(name: &str, path: &Path, folder: &str, entry: &Json) -> Outcome {
    let mut outcome = Outcome::default();
    let expect = entry.get("expect").and_then(Json::as_str).unwrap_or("either");
    let format = read_format(path, folder);
    let Ok(read) =
        catch_unwind(AssertUnwindSafe(|| Facts::read(path, format, (None, Polygons::Same))))
    else {
        outcome.failures.push(format!("{name}: reading it panics"));
        return outcome;
    };
    match (read, expect) {
        (Err(ConvertError::NoFormat { .. }), _) if is_unknown(folder) => {
            outcome.skipped.push(format!("{name}: the format is not known"));
        }
        (Ok(_), "accept" | "either") => outcome.passed += 1,
        (Ok(facts), _) => {
            let rows = facts.batch.len();
            let fault = entry.get("fault").and_then(Json::as_str).unwrap_or_default();
            outcome.failures.push(format!("{name}: read with {rows} vertices although {fault}"));
        }
        (Err(error), "accept") => {
            outcome.failures.push(format!("{name}: refused: {}", in_words(error)))
        }
        (Err(error), _) => {
            let class = error.class().to_string();
            let classes = entry.get("classes").and_then(Json::as_array);
            let named = classes.is_none_or(|all| all.iter().any(|known| known == class.as_str()));
            outcome.check(named, || {
                let expected = classes.map(|all| Json::from(all.clone()).to_string());
                format!(
                    "{name}: class {class}, not of {}: {}",
                    expected.unwrap_or_default(),
                    in_words(error)
                )
            });
        }
    }
    outcome
}

/// Returns whether this build has no format with the name of the folder.
fn is_unknown(folder: &str) -> bool {
    zvf_convert::Format::from_token(folder.split('_').next().unwrap_or(folder)).is_none()
}
