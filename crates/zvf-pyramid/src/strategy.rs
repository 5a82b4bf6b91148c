//! The choice of the objects that a level keeps.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zvf_error::{Error, Result};

use crate::error::setting_error;

/// Which objects a level keeps.
///
/// ```
/// use zvf_pyramid::Strategy;
///
/// assert_eq!("largest:mass".parse::<Strategy>()?, Strategy::Largest("mass".to_owned()));
/// assert_eq!(Strategy::Coverage.to_string(), "coverage");
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// A random choice.
    #[default]
    Random,
    /// The longest: by the length of chains, the total edge length of other kinds, the number of
    /// points.
    Length,
    /// Those with the largest values of this object attribute.
    Largest(String),
    /// Those with the smallest values.
    Smallest(String),
    /// First one for each bin of the level, by one of their vertices, then in proportion to the
    /// size of the bin.
    Coverage,
    /// At most one for each bin, whatever the total.
    Thinning,
    /// The same share of each group and of ungrouped objects, at least one of each.
    Groups,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Length => f.write_str("length"),
            Self::Largest(name) => write!(f, "largest:{name}"),
            Self::Smallest(name) => write!(f, "smallest:{name}"),
            Self::Coverage => f.write_str("coverage"),
            Self::Thinning => f.write_str("thinning"),
            Self::Groups => f.write_str("groups"),
        }
    }
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Strategy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = "random, length, largest:NAME, smallest:NAME, coverage, thinning or groups";
        match text.split_once(':') {
            Some(("largest", name)) => Ok(Self::Largest(name.to_owned())),
            Some(("smallest", name)) => Ok(Self::Smallest(name.to_owned())),
            _ => [Self::Random, Self::Length, Self::Coverage, Self::Thinning, Self::Groups]
                .into_iter()
                .find(|strategy| strategy.to_string() == text)
                .ok_or_else(|| setting_error("choice of objects", expected, text)),
        }
    }
}
