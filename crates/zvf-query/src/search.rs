//! Finds objects by id or by the value of an attribute, for interactive search.

use zvf_error::Result;
use zvf_format::num::checked_usize;
use zvf_model::{Kind, LevelId, LevelReader, ObjectId, ObjectIndex, Value};

use crate::Reader;

/// An object that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundObject {
    /// The kind of its geometry.
    pub kind: Kind,
    /// Its id.
    pub object: ObjectId,
    /// The attribute whose value matched; `None` if the id matched.
    pub attribute: Option<String>,
}

impl Reader {
    /// Finds objects of the finest level whose id is `text`, or that have an attribute with the
    /// value `text`, ignoring case; at most `limit`. Only the first million objects are searched.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
    /// # let store = zvf_store::Store::open(path, Default::default()).await?;
    /// let found = zvf_query::Reader::new(store).search("7", 10).await?;
    /// assert!(found[0].object.0 == 7 && found[0].attribute.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When an index or an attribute cannot be read.
    pub async fn search(&self, text: &str, limit: usize) -> Result<Vec<FoundObject>> {
        let text = text.trim();
        let numbers = self.store().level_numbers();
        let Some(first) = numbers.first().map(|number| LevelId(*number)) else {
            return Ok(Vec::new());
        };
        let first_level = self.level(first).await?;
        let mut found = Vec::new();
        let one = first_level.kinds().first().copied();
        for kind in one.into_iter().chain(first_level.extra_kinds()) {
            let level = self.level_of_kind(first, kind).await?;
            let Some(index) = level.objects().await? else { continue };
            if let Ok(id) = text.parse().map(ObjectId)
                && index.find(&[id]).await?.iter().any(Option::is_some)
            {
                found.push(FoundObject { kind, object: id, attribute: None });
            }
            search_values(&level, &index, kind, (text, limit), &mut found).await?;
        }
        found.truncate(limit);
        Ok(found)
    }
}

async fn search_values(
    level: &LevelReader,
    index: &ObjectIndex,
    kind: Kind,
    (text, limit): (&str, usize),
    found: &mut Vec<FoundObject>,
) -> Result<()> {
    let lowered = text.to_lowercase();
    for attribute in level.object_attributes().await? {
        if attribute.is_derived() {
            continue;
        }
        let slots = index.slots().min(attribute.len()).min(MAX_SEARCHED_ROWS);
        let values = attribute.range(0..slots).await?;
        let mut rows = Vec::new();
        for row in 0..slots {
            let Some(place) = checked_usize(row) else { break };
            let value = values.value(place, 0);
            let is_same = value != Value::Null && value.to_string().to_lowercase() == lowered;
            if is_same && found.len() + rows.len() < limit {
                rows.push(row);
            }
        }
        let named =
            |object| FoundObject { kind, object, attribute: Some(attribute.name().to_owned()) };
        found.extend(index.ids_of(&rows).await?.into_iter().map(named));
    }
    Ok(())
}

/// Maximum number of rows of an attribute that a search examines.
const MAX_SEARCHED_ROWS: u64 = 1 << 20;
