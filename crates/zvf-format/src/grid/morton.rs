//! The order in which 0.6 and 0.7 packed chunks into shards.

/// Interleaves the bits of chunk coordinates, those of the first axis in the lowest place.
///
/// `None` when a coordinate is negative or the result has more than 64 bits. Dividing the result by
/// the shard size gives the number of the shard in the `octree` and `index_table` layouts; to read
/// a shard, its own index is enough.
///
/// ```
/// use zvf_format::grid::morton;
///
/// assert_eq!(morton(&[1, 0]), Some(1));
/// assert_eq!(morton(&[0, 1]), Some(2));
/// assert_eq!(morton(&[3, 0, 1]), Some(0b1101));
/// ```
pub fn morton(components: &[i64]) -> Option<u64> {
    let axes = u32::try_from(components.len()).ok()?;
    let mut code = 0_u64;
    for (axis, component) in (0..axes).zip(components) {
        let mut bits = u64::try_from(*component).ok()?;
        let mut place = axis;
        while bits != 0 {
            let bit = (bits & 1).checked_shl(place)?;
            code |= bit;
            bits >>= 1;
            place = place.checked_add(axes)?;
        }
    }
    Some(code)
}
