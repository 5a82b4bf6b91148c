//! The size of a picture.

use std::fmt;
use std::str::FromStr;

use zvf_error::{Error, Result};
use zvf_format::num::usize_from_u32;

use crate::error::setting_error;

/// The size of a picture in pixels, at least one and at most 16 384 on a side.
///
/// ```
/// use zvf_render::Size;
///
/// assert_eq!("640x480".parse::<Size>()?, Size::new(640, 480)?);
/// assert_eq!("640".parse::<Size>()?, Size::new(640, 640)?);
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub(crate) width: u32, // both 1 to `MAX_PIXELS`
    pub(crate) height: u32,
}

impl Size {
    /// Creates a size of pixels from left to right, and from top to bottom.
    ///
    /// # Errors
    ///
    /// When there are none, or too many.
    pub fn new(width: u32, height: u32) -> Result<Self> {
        let fits = |pixels| (1..=MAX_PIXELS).contains(&pixels);
        if fits(width) && fits(height) {
            return Ok(Self { width, height });
        }
        let expected = "1 to 16384 pixels a side";
        Err(setting_error("size", expected, format!("{width}x{height}")))
    }

    /// Returns the pixels from left to right.
    #[must_use]
    pub const fn width(self) -> u32 {
        self.width
    }

    /// Returns the pixels from top to bottom.
    #[must_use]
    pub const fn height(self) -> u32 {
        self.height
    }

    /// Returns whether a picture of this size has room for one of the other.
    pub(crate) const fn has_room(self, other: Self) -> bool {
        self.width >= other.width && self.height >= other.height
    }

    /// Returns the number of pixels, at most 2^28.
    pub(crate) const fn area(self) -> usize {
        usize_from_u32(self.width) * usize_from_u32(self.height)
    }

    /// Returns the index of a pixel of the picture, row by row from the top.
    pub(crate) const fn index(self, column: u32, row: u32) -> usize {
        usize_from_u32(row) * usize_from_u32(self.width) + usize_from_u32(column)
    }
}

impl Default for Size {
    fn default() -> Self {
        Self { width: 1024, height: 1024 }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Size {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (width, height) = text.split_once('x').unwrap_or((text, text));
        let pixels = width.trim().parse().ok().zip(height.trim().parse().ok());
        let wrong = || setting_error("size", "pixels such as 640x480", format!("{text:?}"));
        let (width, height) = pixels.ok_or_else(wrong)?;
        Self::new(width, height)
    }
}

/// The largest number of pixels on a side.
const MAX_PIXELS: u32 = 1 << 14;
