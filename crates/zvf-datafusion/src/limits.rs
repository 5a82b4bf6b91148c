//! Limits of what documents and batches state.

use std::ops::Range;

use datafusion::error::Result;
use zvf::model::Groups;

use crate::bad_request;

/// Returns the numbers of all groups. A document may state any number of them.
pub(crate) fn group_numbers(groups: &Groups) -> Result<Range<u64>> {
    if groups.len() > MAX_GROUPS {
        let expected = format!("at most {MAX_GROUPS}");
        return Err(bad_request("the groups of a level", &expected, &groups.len().to_string()));
    }
    Ok(0..groups.len())
}

/// Checks that the items of all lists of an array are no more than its offsets of 32 bits count.
pub(crate) fn check_list_items(items: usize) -> Result<()> {
    let refuse = |_too_many| {
        bad_request("the lists of a batch", "fewer than 2^31 items", &items.to_string())
    };
    i32::try_from(items).map(drop).map_err(refuse)
}

/// Maximum groups whose members are in memory together, as of conditions of queries.
const MAX_GROUPS: u64 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_as_many_items_as_their_offsets_count() {
        check_list_items((1 << 31) - 1).unwrap();
        let error = check_list_items(1 << 31).unwrap_err().to_string();
        assert!(error.contains("expected fewer than 2^31 items, found 2147483648"), "{error}");
    }
}
