//! References between objects and fragments: the fragments of a manifest, and the objects of a fragment.
//!
//! Not here: writing manifests (`manifests`).

use std::collections::{HashMap, HashSet};

use zvf_format::manifest::Manifest;
use zvf_format::{Class, num};

use crate::arrays::Chunk;
use crate::error::{At, EditError, Result};
use crate::geometry::Geometry;
use crate::numbers::MAX_OBJECT_REFERENCES;

impl Geometry {
    /// Builds the inverted index from fragments to objects, unless it is loaded.
    pub(crate) fn load_owners(&mut self) -> Result<&HashMap<(u32, u32), Vec<u32>>> {
        if self.owners.is_none() {
            let mut map: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
            for object in self.object_numbers() {
                for reference in self.references(object)? {
                    map.entry(reference).or_default().push(object);
                }
            }
            self.owners = Some(map);
        }
        Ok(self.owners.get_or_insert_default())
    }

    /// Finds the objects with fragments in these chunks. Returns them by chunk and fragment number.
    pub(crate) fn owners_in(
        &mut self,
        chunks: &HashSet<u32>,
    ) -> Result<HashMap<(u32, u32), Vec<u32>>> {
        let Some(objects) = &self.objects else { return Ok(HashMap::new()) };
        let chunk_numbers: HashMap<Vec<u8>, u32> = chunks
            .iter()
            .map(|number| {
                let key = &self.chunk_keys[num::usize_from_u32(*number)];
                (key.iter().flat_map(|c| c.to_le_bytes()).collect(), *number)
            })
            .collect();
        let width = objects.rank * 8;
        let mut found: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        for (i, object) in (0_u32..).zip(&objects.list) {
            let Some(row) = object.row else { continue };
            let blob = &objects.manifests.rows[num::usize_from_u32(row)];
            if blob.len() < 4 {
                continue;
            }
            // Fast path: in most manifests, every block names a single fragment.
            let block = width + 9;
            let simple =
                has_blocks_of(blob, block) && blob[4..].chunks_exact(block).all(|b| b[width] == 0);
            if simple {
                for b in blob[4..].chunks_exact(block) {
                    if let Some(number) = chunk_numbers.get(&b[..width]) {
                        let mut fragment = [0_u8; 8];
                        fragment.copy_from_slice(&b[width + 1..]);
                        let fragment = fragment_number(u64::from_le_bytes(fragment))
                            .at(&self.describe_manifest(row))?;
                        found.entry((*number, fragment)).or_default().push(i);
                    }
                }
                continue;
            }
            let references = read_references(blob, objects.rank).at(&self.describe_manifest(row))?;
            for (key, fragment) in references {
                let bytes: Vec<u8> = key.iter().flat_map(|c| c.to_le_bytes()).collect();
                if let Some(number) = chunk_numbers.get(&bytes) {
                    found.entry((*number, fragment)).or_default().push(i);
                }
            }
        }
        Ok(found)
    }

    /// Returns the fragments of an object before the edit, each as chunk number and fragment number.
    pub(crate) fn references(&mut self, object: u32) -> Result<Vec<(u32, u32)>> {
        let Some(objects) = &self.objects else { return Ok(Vec::new()) };
        let Some(row) = objects.list[num::usize_from_u32(object)].row else {
            return Ok(Vec::new());
        };
        let references =
            read_references(&objects.manifests.rows[num::usize_from_u32(row)], objects.rank)
                .at(&self.describe_manifest(row))?;
        let list = references.into_iter();
        Ok(list.map(|(key, fragment)| (self.chunk_number(&key), fragment)).collect())
    }

    /// Returns the fragments of an object before the edit in the order of its vertices.
    pub(crate) fn ordered_references(&mut self, object: u32) -> Result<Vec<(u32, u32)>> {
        let mut references = self.references(object)?;
        if !self.is_ordered() {
            let key = |chunk: u32| &self.chunk_keys[num::usize_from_u32(chunk)];
            references.sort_by(|a, b| key(a.0).cmp(key(b.0)));
        }
        Ok(references)
    }

    /// Returns the error of an object that names a fragment which is not there.
    pub(crate) fn missing_fragment(&self, chunk: u32, fragment: u32) -> EditError {
        missing_fragment_error(&self.path, &self.chunk_keys[num::usize_from_u32(chunk)], fragment)
    }

    /// Returns the fragments of an object before the edit with which another line starts, by their place in its manifest.
    pub(crate) fn line_starts(&self, object: u32) -> Result<HashSet<usize>> {
        let mut starts = HashSet::new();
        let state = self.object(object).and_then(|state| state.row).zip(self.objects.as_ref());
        let Some((row, objects)) = state else { return Ok(starts) };
        let blob = &objects.manifests.rows[num::usize_from_u32(row)];
        if blob.is_empty() || has_blocks_of(blob, objects.rank * 8 + 9) {
            return Ok(starts);
        }
        let mut before = 0;
        for block in Manifest::parse(blob, num::to_u64(objects.rank))?.blocks() {
            // An object has at most `MAX_OBJECT_REFERENCES` fragments.
            before += num::saturating_usize(block.fragments.len());
            if block.fragments.is_empty() && before > 0 {
                starts.insert(before);
            }
        }
        Ok(starts)
    }

    fn describe_manifest(&self, row: u32) -> String {
        format!("{}/object_index/manifests row {row}", self.path)
    }
}

pub(crate) fn missing_fragment_error(level: &str, chunk: &Chunk, fragment: u32) -> EditError {
    let text = format!("{level}/object_index: fragment {fragment} of chunk {chunk:?} is not there");
    EditError::new(Class::OutOfBounds, text)
}

/// Returns whether all blocks of a manifest have so many bytes.
fn has_blocks_of(blob: &[u8], block: usize) -> bool {
    let count = blob.first_chunk().map(|count| u32::from_le_bytes(*count));
    count.is_some_and(|count| num::usize_from_u32(count).checked_mul(block) == Some(blob.len() - 4))
}

/// Parses the fragments that a manifest names, in order.
///
/// # Errors
///
/// When the bytes are not a manifest, or it names too many fragments, or one beyond 32 bits.
pub(crate) fn read_references(blob: &[u8], rank: usize) -> Result<Vec<(Chunk, u32)>> {
    if blob.is_empty() {
        return Ok(Vec::new());
    }
    let manifest = Manifest::parse(blob, num::to_u64(rank))?;
    let references = manifest.references_within(MAX_OBJECT_REFERENCES)?;
    let named = references.map(|reference| {
        let chunk: Chunk = reference.chunk.iter().map(|component| component.get()).collect();
        Ok((chunk, fragment_number(reference.fragment)?))
    });
    named.collect()
}

/// Converts the number of a fragment to 32 bits, or refuses it.
pub(crate) fn fragment_number(fragment: u64) -> Result<u32> {
    u32::try_from(fragment).map_err(|_large| {
        EditError::new(
            Class::OutOfBounds,
            format!("expected a fragment below 2^32, found {fragment}; run \"zvf validate\""),
        )
    })
}
