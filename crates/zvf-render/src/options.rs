//! The options of a picture.

use std::fmt;
use std::str::FromStr;

use zvf_format::num::usize_from_u32;
use zvf_model::Bounds;

use crate::colour::{ColourMap, Rgb};
use crate::error::RenderError;
use crate::view::View;

/// The options of rendering. The defaults show everything the query finds, from above where there are two axes and from
/// a corner where there are three.
///
/// ```
/// use zvf_render::{ColourBy, Options, Size};
///
/// let options = Options {
///     size: Size::new(320, 200)?,
///     colour: ColourBy::Attribute("intensity".into()),
///     range: Some([0.0, 1.0]),
///     ..Options::default()
/// };
/// assert_eq!(options.size.to_string(), "320x200");
/// # Ok::<(), zvf_render::RenderError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The size in pixels.
    pub size: Size,
    /// The viewpoint [default: by the number of axes].
    pub view: Option<View>,
    /// The indices of the two or three axes that are drawn [default: the first three].
    pub axes: Option<Vec<usize>>,
    /// The box that must fit in the picture [default: the bounds of the store].
    pub bounds: Option<Bounds>,
    /// The source of the colour.
    pub colour: ColourBy,
    /// The colours of numbers.
    pub map: ColourMap,
    /// The numbers at the two ends of the map [default: the visible minimum and maximum].
    pub range: Option<[f64; 2]>,
    /// The width of a point and a line in pixels [default: by their number].
    pub width: Option<u32>,
    /// The background.
    pub ground: Ground,
}

/// The size of a picture in pixels, at least one and at most 16 384 on a side.
///
/// ```
/// use zvf_render::Size;
///
/// assert_eq!("640x480".parse::<Size>()?, Size::new(640, 480)?);
/// assert_eq!("640".parse::<Size>()?, Size::new(640, 640)?);
/// # Ok::<(), zvf_render::RenderError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub(crate) width: u32, // both 1 to MOST
    pub(crate) height: u32,
}

impl Size {
    /// Creates a size of pixels from left to right, and from top to bottom.
    ///
    /// # Errors
    ///
    /// When there are none, or too many.
    pub fn new(width: u32, height: u32) -> Result<Self, RenderError> {
        let fits = |pixels| (1..=MAX_PIXELS).contains(&pixels);
        if fits(width) && fits(height) {
            return Ok(Self { width, height });
        }
        let expected = "1 to 16384 pixels a side";
        Err(RenderError::setting("size", expected, format!("{width}x{height}")))
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

    /// Returns the number of pixels.
    pub(crate) fn area(self) -> usize {
        usize_from_u32(self.width).saturating_mul(usize_from_u32(self.height))
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
    type Err = RenderError;

    fn from_str(text: &str) -> Result<Self, RenderError> {
        let (width, height) = text.split_once('x').unwrap_or((text, text));
        let pixels = width.trim().parse().ok().zip(height.trim().parse().ok());
        let wrong = || RenderError::setting("size", "pixels such as 640x480", format!("{text:?}"));
        let (width, height) = pixels.ok_or_else(wrong)?;
        Self::new(width, height)
    }
}

/// The source of the colour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ColourBy {
    /// The object, where there are objects of more than a point; else the depth of points, else nothing.
    #[default]
    Usual,
    /// Nothing: one colour for everything.
    Plain,
    /// The object that a vertex belongs to.
    Object,
    /// The distance from the viewer.
    Depth,
    /// An attribute, named as in a query: of vertices, edges or faces, or `fragment.NAME`, or
    /// `object.NAME`. Text and categories have a colour each; three bytes are a colour.
    Attribute(String),
}

impl fmt::Display for ColourBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usual => "usual",
            Self::Plain => "plain",
            Self::Object => "object",
            Self::Depth => "depth",
            Self::Attribute(name) => name,
        })
    }
}

/// The background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ground {
    /// A colour.
    Colour(Rgb),
    /// Nothing: the picture is transparent there.
    Transparent,
}

impl Ground {
    /// White.
    pub const WHITE: Self = Self::Colour([255; 3]);
    /// Black.
    pub const BLACK: Self = Self::Colour([0; 3]);
}

impl Default for Ground {
    fn default() -> Self {
        Self::WHITE
    }
}

impl FromStr for Ground {
    type Err = RenderError;

    fn from_str(word: &str) -> Result<Self, RenderError> {
        match word {
            "white" => Ok(Self::WHITE),
            "black" => Ok(Self::BLACK),
            "transparent" => Ok(Self::Transparent),
            _ => {
                let expected = "white, black or transparent";
                Err(RenderError::setting("ground", expected, format!("{word:?}")))
            }
        }
    }
}

/// The largest number of pixels on a side.
const MAX_PIXELS: u32 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_what_they_may_be() {
        for (text, found) in [
            ("x", "size: expected pixels such as 640x480, found \"x\""),
            ("-1", "size: expected pixels such as 640x480, found \"-1\""),
            ("16385x1", "size: expected 1 to 16384 pixels a side, found 16385x1"),
            ("5x0", "size: expected 1 to 16384 pixels a side, found 5x0"),
        ] {
            assert_eq!(text.parse::<Size>().unwrap_err().to_string(), found);
        }
        assert_eq!("black".parse::<Ground>().unwrap(), Ground::BLACK);
        assert_eq!("transparent".parse::<Ground>().unwrap(), Ground::Transparent);
        assert_eq!(
            "blue".parse::<Ground>().unwrap_err().to_string(),
            "ground: expected white, black or transparent, found \"blue\""
        );
    }
}
