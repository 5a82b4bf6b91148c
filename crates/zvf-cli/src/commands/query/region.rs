//! The text forms of regions.
//!
//! ```text
//! --bbox        x,y,z:x,y,z       lowest corner, highest corner; inf and -inf leave a side open; two axes are the first two
//! --ball        x,y,z:r           centre, radius
//! --half-space  nx,ny,nz:d        the points p with n . p <= d; several are what they have in common
//! --prism       x,y;x,y;x,y       a polygon on two axes; --bbox limits all axes
//! ```

use anyhow::Context as _;
use clap::Args;
use zvf::Bounds;
use zvf::question::{parse_ball, parse_box, parse_numbers};
use zvf::region::{HalfSpace, Region};

use crate::arguments::find_axis;
use crate::outcome::Usage;

/// The region.
#[derive(Args)]
#[command(next_help_heading = "Spatial filter")]
pub(crate) struct Where {
    /// A box: its lowest and its highest corner; inf and -inf leave a side open. A box of two axes
    /// limits the first two.
    #[arg(long, value_name = "X,Y,Z:X,Y,Z", allow_hyphen_values = true)]
    bbox: Option<String>,
    /// Exclude vertices on the upper faces of the box, so that adjacent boxes share none.
    #[arg(long, requires = "bbox")]
    half_open: bool,
    /// A ball: its centre and radius.
    #[arg(long, value_name = "X,Y,Z:R", allow_hyphen_values = true, conflicts_with_all = ["bbox", "half_space", "prism"])]
    ball: Option<String>,
    /// A half-space, the points p with n . p <= d; several are intersected.
    #[arg(long, value_name = "NX,NY,NZ:D", allow_hyphen_values = true, conflicts_with_all = ["bbox", "prism"])]
    half_space: Vec<String>,
    /// A prism over a polygon, within --bbox where one is given.
    #[arg(long, value_name = "X,Y;X,Y;...", allow_hyphen_values = true)]
    prism: Option<String>,
    /// The two axes of the polygon, by name or number.
    #[arg(long, value_name = "A,B", default_value = "0,1", requires = "prism")]
    prism_axes: String,
}

impl Where {
    /// Returns the region, in a store with `axes`.
    pub(crate) fn region(&self, axes: &[String]) -> anyhow::Result<Option<Region>> {
        if let Some(text) = &self.ball {
            return Ok(Some(ball(text)?));
        }
        if !self.half_space.is_empty() {
            let spaces: anyhow::Result<Vec<HalfSpace>> =
                self.half_space.iter().map(|text| half_space(text)).collect();
            return Ok(Some(Region::from_half_spaces(&spaces?).map_err(zvf::Error::from)?));
        }
        let limits = self.bbox.as_deref().map(bbox).transpose()?;
        let limits = limits.map(|limits| extend(limits, axes.len())).transpose()?;
        if let Some(text) = &self.prism {
            let on = prism_axes(&self.prism_axes, axes)?;
            let limits = match limits {
                Some(limits) => limits,
                None => open(axes.len())?,
            };
            let prism = Region::prism(&polygon(text)?, on, &limits);
            return Ok(Some(prism.map_err(zvf::Error::from)?));
        }
        let region = limits.map(Region::from);
        Ok(if self.half_open { region.map(Region::into_half_open) } else { region })
    }
}

/// Parses a box: its two corners.
pub(crate) fn bbox(text: &str) -> anyhow::Result<Bounds> {
    let wrong = || Usage::new(format!("--bbox {text:?} is not a box; {BBOX_FORM}"));
    let [low, high] = parse_box(text).ok_or_else(wrong)?;
    Bounds::new(&low, &high).map_err(zvf::Error::from).context("--bbox")
}

/// Leaves the last of `axes` axes open in a box of two axes or more.
fn extend(limits: Bounds, axes: usize) -> anyhow::Result<Bounds> {
    if !(2..axes).contains(&limits.axes()) {
        return Ok(limits);
    }
    let corner = |from: &[f64], end: f64| {
        let mut all = from.to_vec();
        all.resize(axes, end);
        all
    };
    let (low, high) =
        (corner(limits.low(), f64::NEG_INFINITY), corner(limits.high(), f64::INFINITY));
    Ok(Bounds::new(&low, &high).map_err(zvf::Error::from)?)
}

fn ball(text: &str) -> anyhow::Result<Region> {
    let wrong = || Usage::new(format!("--ball {text:?} is not a ball; {BALL_FORM}"));
    let (centre, radius) = parse_ball(text).ok_or_else(wrong)?;
    Region::ball(&centre, radius).map_err(zvf::Error::from).context("--ball")
}

fn half_space(text: &str) -> anyhow::Result<HalfSpace> {
    let wrong = || Usage::new(format!("--half-space {text:?} is not a half-space; {SPACE_FORM}"));
    let (normal, offset) = parse_ball(text).ok_or_else(wrong)?;
    HalfSpace::new(&normal, offset).map_err(zvf::Error::from).context("--half-space")
}

fn polygon(text: &str) -> anyhow::Result<Vec<[f64; 2]>> {
    let wrong = || Usage::new(format!("--prism {text:?} is not a polygon; {PRISM_FORM}"));
    let corner = |text: &str| <[f64; 2]>::try_from(parse_numbers(text)?).ok();
    let corners: Option<Vec<[f64; 2]>> = text.split(';').map(corner).collect();
    Ok(corners.ok_or_else(wrong)?)
}

/// Returns the indices of two axes among `names`.
fn prism_axes(text: &str, names: &[String]) -> anyhow::Result<[usize; 2]> {
    let both = text.split_once(',');
    let both = both.and_then(|(a, b)| find_axis(a, names).zip(find_axis(b, names)));
    let (a, b) = both.ok_or_else(|| {
        let known = names.join(", ");
        Usage::new(format!("--prism-axes {text:?} does not name two axes; the axes are {known}"))
    })?;
    Ok([a, b])
}

/// Returns the unbounded box.
fn open(axes: usize) -> anyhow::Result<Bounds> {
    let bounds = Bounds::new(&vec![f64::NEG_INFINITY; axes], &vec![f64::INFINITY; axes]);
    Ok(bounds.map_err(zvf::Error::from)?)
}

const BBOX_FORM: &str =
    "write both corners, as in 0,0,0:10,10,10, or 0,0:10,10 for the first two axes";
const BALL_FORM: &str = "write centre and radius, as in 5,5,5:2.5";
const SPACE_FORM: &str = "write normal and offset, as in 0,0,1:12 for z <= 12";
const PRISM_FORM: &str = "write its corners, as in \"0,0;10,0;10,10\"";

#[cfg(test)]
mod tests {
    use super::*;

    fn region(set: impl FnOnce(&mut Where)) -> anyhow::Result<Option<Region>> {
        let mut filter = Where {
            bbox: None,
            half_open: false,
            ball: None,
            half_space: Vec::new(),
            prism: None,
            prism_axes: "0,1".into(),
        };
        set(&mut filter);
        filter.region(&["x".into(), "y".into(), "z".into()])
    }

    #[test]
    fn regions_contain_the_points_within_them() {
        assert!(region(|_| {}).unwrap().is_none());
        let inside = |region: anyhow::Result<Option<Region>>, point: [f64; 3]| {
            region.unwrap().unwrap().contains(&point)
        };
        let cube = |half_open| {
            region(|at| {
                at.bbox = Some("-1,-1,-1:1, 1,1".into());
                at.half_open = half_open;
            })
        };
        assert!(inside(cube(false), [1.0; 3]) && !inside(cube(true), [1.0; 3]));
        let slab = || region(|at| at.bbox = Some("-inf,0,0:inf,1,1".into()));
        assert!(inside(slab(), [1e30, 0.5, 0.5]) && !inside(slab(), [0.0, 2.0, 0.0]));
        let ball = || region(|at| at.ball = Some("0,0,0:2".into()));
        assert!(inside(ball(), [2.0, 0.0, 0.0]) && !inside(ball(), [2.0, 0.1, 0.0]));
        let wedge = || region(|at| at.half_space = vec!["1,0,0:1".into(), "-1,0,0:1".into()]);
        assert!(inside(wedge(), [0.5, 9.0, 9.0]) && !inside(wedge(), [-1.5, 0.0, 0.0]));
        let prism = |axes: &str, limits: Option<&str>| {
            region(|at| {
                at.prism = Some("0,0;4,0;0,4".into());
                at.prism_axes = axes.into();
                at.bbox = limits.map(str::to_owned);
            })
        };
        assert!(inside(prism("x,z", None), [1.0, 99.0, 1.0]));
        assert!(!inside(prism("0,1", None), [1.0, 99.0, 1.0]));
        assert!(!inside(prism("x,z", Some("0,0,0:9,9,9")), [1.0, 99.0, 1.0]));
    }

    #[test]
    fn invalid_regions_are_refused_with_an_example() {
        for (result, text) in [
            (
                region(|at| at.bbox = Some("1,2".into())),
                "--bbox \"1,2\" is not a box; write both corners, as in 0,0,0:10,10,10, \
                 or 0,0:10,10 for the first two axes",
            ),
            (
                region(|at| at.bbox = Some("1,2:3".into())),
                "--bbox \"1,2:3\" is not a box; write both corners, as in 0,0,0:10,10,10, \
                 or 0,0:10,10 for the first two axes",
            ),
            (
                region(|at| at.ball = Some("1,nan:3".into())),
                "--ball \"1,nan:3\" is not a ball; write centre and radius, as in 5,5,5:2.5",
            ),
            (
                region(|at| at.half_space = vec!["1".into()]),
                "--half-space \"1\" is not a half-space; write normal and offset, as in 0,0,1:12 \
                 for z <= 12",
            ),
            (
                region(|at| at.prism = Some("1,2,3".into())),
                "--prism \"1,2,3\" is not a polygon; write its corners, as in \
                 \"0,0;10,0;10,10\"",
            ),
            (
                region(|at| {
                    at.prism = Some("0,0;1,0;0,1".into());
                    at.prism_axes = "x".into();
                }),
                "--prism-axes \"x\" does not name two axes; the axes are x, y, z",
            ),
        ] {
            assert_eq!(result.unwrap_err().to_string(), text);
        }
    }
}
