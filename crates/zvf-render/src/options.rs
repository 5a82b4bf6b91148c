//! The options of a picture.

use std::str::FromStr;

use zvf_error::{Error, Result};
use zvf_model::Bounds;

use crate::colour::{ColourMap, Rgb};
use crate::error::setting_error;
use crate::size::Size;
use crate::view::View;

/// The options of rendering. By default everything in the result of the query is shown, from above
/// for two axes and from a corner for three.
///
/// ```
/// use zvf_render::{ColourBy, Options, Size};
///
/// let options = Options {
///     size: Size::new(320, 200)?,
///     colour: ColourBy::Named("intensity".into()),
///     range: Some([0.0, 1.0]),
///     ..Options::default()
/// };
/// assert_eq!(options.size.to_string(), "320x200");
/// # Ok::<(), zvf_error::Error>(())
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
    /// Whether the scale of the colours, a scale bar and the directions of the axes are drawn
    /// [default: if the picture has room].
    pub legend: Option<bool>,
}

/// The source of the colour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColourBy {
    /// By kind: the third axis for points, the direction for streamlines, otherwise the object, if
    /// there are objects.
    #[default]
    Usual,
    /// Nothing: one colour for everything.
    Plain,
    /// The object that a vertex belongs to.
    Object,
    /// The distance from the viewer.
    Depth,
    /// The direction of lines and edges: the more they go along the first axis, the redder they
    /// are; green is the second axis, blue the third.
    Direction,
    /// A coordinate, if it is the name of an axis. Otherwise an attribute, named as in a query: of
    /// vertices, edges or faces, or `fragment.NAME`, or `object.NAME`; `vertex.NAME` is never an
    /// axis. Text and categories each have a colour; three bytes are a colour.
    Named(String),
}

impl From<&str> for ColourBy {
    /// Parses a word; `vertex.NAME` is an attribute that has one of the words as its name.
    fn from(word: &str) -> Self {
        match word {
            "plain" => Self::Plain,
            "object" => Self::Object,
            "depth" => Self::Depth,
            "direction" => Self::Direction,
            name => Self::Named(name.to_owned()),
        }
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
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "white" => Ok(Self::WHITE),
            "black" => Ok(Self::BLACK),
            "transparent" => Ok(Self::Transparent),
            _ => {
                let expected = "white, black or transparent";
                Err(setting_error("ground", expected, format!("{word:?}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_and_grounds() {
        for (text, message) in [
            ("x", "size: expected pixels such as 640x480, found \"x\""),
            ("-1", "size: expected pixels such as 640x480, found \"-1\""),
            ("16385x1", "size: expected 1 to 16384 pixels a side, found 16385x1"),
            ("5x0", "size: expected 1 to 16384 pixels a side, found 5x0"),
        ] {
            assert_eq!(text.parse::<Size>().unwrap_err().sentence(), message);
        }
        assert_eq!("black".parse::<Ground>().unwrap(), Ground::BLACK);
        assert_eq!("transparent".parse::<Ground>().unwrap(), Ground::Transparent);
        assert_eq!(
            "blue".parse::<Ground>().unwrap_err().sentence(),
            "ground: expected white, black or transparent, found \"blue\""
        );
    }
}
