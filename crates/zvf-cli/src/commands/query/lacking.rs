//! Answers that may be incomplete because a backend cannot list: an error, unless the caller allows it.

use zvf::{Notice, Store};

use crate::outcome::{Usage, refuse};

/// Refuses an answer that may lack attributes or links: those that no document declares and that
/// could not be listed in `store`. The answer has all attributes or named ones, and elements or none.
///
/// # Errors
///
/// [`Usage`] with the groups that could not be listed, and how to name what they hold.
pub(super) fn check(store: &Store, all_attributes: bool, elements: bool) -> Result<(), Usage> {
    let declares = store.root().zarr_vectors.attribute_specs().is_some();
    let (mut attributes, mut links) = (Vec::new(), Vec::new());
    for notice in store.notices() {
        let Notice::CannotEnumerate { key } = notice else { continue };
        let name = key.name().unwrap_or_default();
        if matches!(name, "vertex_attributes" | "object_attributes") {
            attributes.push(key.as_str().to_owned());
        } else if key.segments().any(|part| part == "links" || part.starts_with("cross_chunk_link"))
        {
            links.push(key.as_str().to_owned());
        }
    }
    if all_attributes && !declares && !attributes.is_empty() {
        let text = format!(
            "the attributes in {} cannot be listed, and no metadata declares them; name them with \
             --attributes NAMES (or none), or leave them out with --allow-missing",
            attributes.join(", ")
        );
        return refuse(text);
    }
    if elements && !links.is_empty() {
        return refuse(format!(
            "the links in {} cannot be listed; leave them out with --no-elements, or use those \
             that are found with --allow-missing",
            links.join(", ")
        ));
    }
    Ok(())
}
