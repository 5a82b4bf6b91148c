//! Finds objects by id or by the value of an attribute, for interactive search.

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
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
    /// value `text`, ignoring case; at most `limit`.
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
    /// When an index or an attribute cannot be read, or has more than 2^27 rows.
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
        let slots = if attribute.is_derived() { 0 } else { index.slots().min(attribute.len()) };
        if slots > MAX_SEARCHED_ROWS {
            let expected = format!("at most {MAX_SEARCHED_ROWS} objects");
            return Err(Error::new(Class::LimitExceeded, "search", expected, slots));
        }
        for start in (0..slots).step_by(BLOCK_ROWS) {
            let end = slots.min(start + to_u64(BLOCK_ROWS));
            let values = attribute.range(start..end).await?;
            let is_same = |at: usize| {
                let value = values.value(at, 0);
                value != Value::Null && value.to_string().to_lowercase() == lowered
            };
            let rows = (start..end).zip(0..).filter_map(|(row, at)| is_same(at).then_some(row));
            let rows: Vec<u64> = rows.take(limit.saturating_sub(found.len())).collect();
            let named =
                |object| FoundObject { kind, object, attribute: Some(attribute.name().to_owned()) };
            found.extend(index.ids_of(&rows).await?.into_iter().map(named));
        }
    }
    Ok(())
}

/// More objects than a search examines.
const MAX_SEARCHED_ROWS: u64 = 1 << 27;
/// Rows of an attribute that are in memory at a time.
const BLOCK_ROWS: usize = if cfg!(test) { 2 } else { 1 << 16 };

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn values_of_every_block_are_found() {
        let store = archives::Unpacked::new("pc3_objects");
        let reader = Reader::new(store.open().await);
        let found = reader.search(" 3", 100).await.unwrap();
        let by_value = found.iter().filter(|one| one.attribute.as_deref() == Some("klass"));
        assert_eq!(by_value.map(|one| one.object.0).collect::<Vec<_>>(), [0, 1, 5, 15, 24, 26, 28]);
        assert_eq!(reader.search("3", 2).await.unwrap(), found[..2]);
    }
}
