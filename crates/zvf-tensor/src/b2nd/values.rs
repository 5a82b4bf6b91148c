//! Items read from a block array.

use bytes::Bytes;

/// Items in C order, as they are stored.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/caterva/frames/b2_seed_2d_i4.b2nd");
/// use zvf_tensor::{BlockArray, Memory};
///
/// let array = BlockArray::open(path, &Default::default()).await?;
/// let row = array.slice(&"4:5,0:5".parse()?, &Memory::default()).await?;
/// assert_eq!((row.shape(), row.item_size(), row.dtype()), (&[1, 5][..], 4, Some("<i4")));
/// assert_eq!(row.bytes()[..8], [20, 0, 0, 0, 21, 0, 0, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockValues {
    pub(super) shape: Vec<u64>,
    pub(super) item_size: u32,
    pub(super) dtype: Option<Box<str>>,
    pub(super) bytes: Bytes, // as many items as the shape has
}

impl BlockValues {
    /// Returns the extents.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the bytes of one item.
    pub const fn item_size(&self) -> u32 {
        self.item_size
    }

    /// Returns the NumPy name of the item type, if the array states it: `<i4`, or a list of fields.
    pub fn dtype(&self) -> Option<&str> {
        self.dtype.as_deref()
    }

    /// Returns the items, in C order.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}
