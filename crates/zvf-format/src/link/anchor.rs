//! Maps the chunks of one level to chunks of another.
//!
//! Offsets between levels are counted in chunks of the target level, from the chunk that holds the
//! lower corner of the source. Division rounds down, also below zero.

use crate::error::{Class, Expected, FormatError, Part};
use crate::grid::LevelRatio;
use crate::key::{ChunkKey, MAX_RANK, check_rank};
use crate::num;

/// The map from chunks of a source level to chunks of a target level.
///
/// ```
/// use zvf_format::grid::ChunkShape;
/// use zvf_format::key::ChunkKey;
/// use zvf_format::link::Anchor;
///
/// let root = ChunkShape::new(&[5.0, 5.0]).unwrap();
/// let fine = root.ratio_to(&root).unwrap();
/// let coarse = ChunkShape::new(&[10.0, 10.0]).unwrap().ratio_to(&root).unwrap();
/// let up = Anchor::from_ratios(&fine, &coarse, 2).unwrap();
/// let chunk = ChunkKey::new(&[3, -1]).unwrap();
/// assert_eq!(up.map_chunk(&chunk).unwrap().components(), [1, -1]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    ratios: [(i64, i64); MAX_RANK], // source and target, each at least 1; ones from `rank` on
    pub(super) rank: u8,            // 1 to MAX_RANK
}

impl Anchor {
    /// Maps between levels of the same chunk shape: every chunk is its own anchor.
    ///
    /// # Errors
    ///
    /// When `sid_ndim` is not 1 to [`MAX_RANK`].
    pub fn identity(sid_ndim: usize) -> Result<Self, FormatError> {
        Ok(Self { ratios: [(1, 1); MAX_RANK], rank: check_rank(Part::LinkRecord, sid_ndim)? })
    }

    /// Maps between two levels whose chunks are `source` and `target` times those of the root.
    /// Components in front of the axes (the bin of an attribute) are kept.
    ///
    /// # Errors
    ///
    /// When the ratios differ in rank, or `sid_ndim` is below their rank or above [`MAX_RANK`].
    pub fn from_ratios(
        source: &LevelRatio,
        target: &LevelRatio,
        sid_ndim: usize,
    ) -> Result<Self, FormatError> {
        let mut anchor = Self::identity(sid_ndim)?;
        let axes = source.multiples().len();
        let refuse = |expected, found: usize| {
            FormatError::new(Class::BadShape, Part::LinkRecord, "axes", 0, expected, found)
        };
        if target.multiples().len() != axes {
            let expected = Expected::Exactly(num::to_u64(axes).into());
            return Err(refuse(expected, target.multiples().len()));
        }
        let Some(front) = sid_ndim.checked_sub(axes) else {
            return Err(refuse(Expected::AtMost(anchor.rank.into()), axes));
        };
        let times = source.multiples().iter().copied().zip(target.multiples().iter().copied());
        for (to, from) in anchor.ratios.iter_mut().skip(front).zip(times) {
            *to = from;
        }
        Ok(anchor)
    }

    /// Returns the chunk of the target level that is the origin of offsets from `chunk`.
    ///
    /// # Errors
    ///
    /// When the chunk has another rank, or the anchor does not fit in 64 bits.
    pub fn map_chunk(&self, chunk: &ChunkKey) -> Result<ChunkKey, FormatError> {
        check_chunk(chunk, self.rank())?;
        let mut components = [0; MAX_RANK];
        let axes = components.iter_mut().zip(chunk.components());
        for (axis, (to, component)) in axes.enumerate() {
            *to = self.component(axis, *component).ok_or_else(|| {
                let expected = Expected::Rule("an anchor in 64 bits");
                let (class, part) = (Class::Overflow, Part::LinkRecord);
                FormatError::new(class, part, "source", 0, expected, *component)
            })?;
        }
        Ok(ChunkKey::from_checked(components, self.rank))
    }

    /// Returns how many components the keys have.
    pub(super) fn rank(&self) -> usize {
        self.rank.into()
    }

    /// Returns whether every chunk is its own anchor.
    pub(super) fn is_same(&self) -> bool {
        self.ratios.iter().all(|(source, target)| source == target)
    }

    /// Returns one component of an anchor, or `None` if it does not fit.
    pub(super) fn component(&self, axis: usize, component: i64) -> Option<i64> {
        match self.ratios.get(axis)? {
            (source, target) if source == target => Some(component),
            (source, target) => {
                let scaled = i128::from(component).checked_mul((*source).into())?;
                i64::try_from(scaled.checked_div_euclid((*target).into())?).ok()
            }
        }
    }
}

/// Refuses a chunk whose rank is not that of its family.
pub(super) fn check_chunk(chunk: &ChunkKey, sid_ndim: usize) -> Result<(), FormatError> {
    if chunk.rank() == sid_ndim {
        return Ok(());
    }
    let expected = Expected::Exactly(num::to_u64(sid_ndim).into());
    let (class, found) = (Class::BadShape, chunk.rank());
    Err(FormatError::new(class, Part::LinkRecord, "sid_ndim", 0, expected, found))
}
