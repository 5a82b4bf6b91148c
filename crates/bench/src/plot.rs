//! Plots as SVG, without a library: bars of ratios, and lines of growth, both on logarithmic scales.
//!
//! Colours are told apart by dark and light as well; every bar has its number beside it.

use std::fmt::Write as _;

use crate::row::{Role, Row};
use crate::series::Series;
use crate::units::format_time;

/// For each row, how many times as long as zvf each contender takes: longer bars are slower.
pub(crate) fn plot_bars(rows: &[&Row]) -> Option<String> {
    let mut bars = Vec::new();
    for row in rows {
        let Some(ours) = row.seconds(Role::Zvf) else { continue };
        let others = row.sides.iter().filter(|side| side.role != Role::Zvf);
        let measured = others.filter_map(|side| {
            let turn = side.result.as_ref().ok()?;
            Some((side.name.as_str(), side.role, turn.seconds / ours))
        });
        let measured: Vec<_> =
            measured.filter(|(_, _, ratio)| *ratio > 0.0 && ratio.is_finite()).collect();
        if !measured.is_empty() {
            bars.push((row.work.as_str(), measured));
        }
    }
    let ratios =
        || bars.iter().flat_map(|(_, measured)| measured.iter().map(|(_, _, ratio)| *ratio));
    let low = ratios().fold(0.5, f64::min).log10().floor();
    let high = ratios().fold(2.0, f64::max).log10().ceil();
    let x = |ratio: f64| LEFT + (WIDTH - LEFT - RIGHT) * (ratio.log10() - low) / (high - low);
    let (mut body, mut y) = (String::new(), 30.0);
    for (work, measured) in &bars {
        let _ = writeln!(
            body,
            r#"<text x="4" y="{:.0}" font-weight="bold">{}</text>"#,
            y + 11.0,
            escape_xml(work)
        );
        y += 17.0;
        for (name, role, ratio) in measured {
            let (from, to) = (x(1.0).min(x(*ratio)), x(1.0).max(x(*ratio)));
            let _ = writeln!(
                body,
                r##"<text x="{:.0}" y="{:.0}" text-anchor="end">{}</text><rect x="{from:.1}" y="{y:.0}" width="{:.1}" height="12" fill="{}"/><text x="{:.1}" y="{:.0}">{ratio:.2}</text>"##,
                LEFT - 6.0,
                y + 10.0,
                escape_xml(name),
                (to - from).max(1.0),
                role_colour(*role),
                to + 4.0,
                y + 10.0,
            );
            y += 15.0;
        }
        y += 6.0;
    }
    let mut grid = String::new();
    for power in low as i32..=high as i32 {
        let at = x(10_f64.powi(power));
        let line = if power == 0 { "#333" } else { "#ccc" };
        let label =
            if power == 0 { "as zvf".to_owned() } else { format!("{}x", 10_f64.powi(power)) };
        let _ = writeln!(
            grid,
            r#"<line x1="{at:.1}" y1="22" x2="{at:.1}" y2="{y:.0}" stroke="{line}"/><text x="{at:.1}" y="16" text-anchor="middle">{label}</text>"#
        );
    }
    (!bars.is_empty()).then(|| format_svg(y + 8.0, &(grid + &body)))
}

/// Time by amount, a line for each series.
pub(crate) fn plot_lines(series: &[&Series]) -> Option<String> {
    let points = || series.iter().flat_map(|line| line.points());
    let span = |values: Vec<f64>| -> Option<(f64, f64)> {
        let low = values.iter().copied().reduce(f64::min)?.log10().floor();
        let high = values.iter().copied().reduce(f64::max)?.log10().ceil();
        (low.is_finite() && high.is_finite()).then_some((low, high.max(low + 1.0)))
    };
    let (left, right) = span(points().map(|point| point.0).collect())?;
    let (bottom, top) = span(points().map(|point| point.1).collect())?;
    let height = 300.0;
    let x = |n: f64| 70.0 + (WIDTH - 300.0) * (n.log10() - left) / (right - left);
    let y = |t: f64| height - 30.0 - (height - 50.0) * (t.log10() - bottom) / (top - bottom);
    let mut body = String::new();
    for power in left as i32..=right as i32 {
        let at = x(10_f64.powi(power));
        let _ = writeln!(
            body,
            r##"<line x1="{at:.1}" y1="20" x2="{at:.1}" y2="270" stroke="#ccc"/><text x="{at:.1}" y="286" text-anchor="middle">10^{power}</text>"##
        );
    }
    for power in bottom as i32..=top as i32 {
        let at = y(10_f64.powi(power));
        let _ = writeln!(
            body,
            r##"<line x1="70" y1="{at:.1}" x2="{:.1}" y2="{at:.1}" stroke="#ccc"/><text x="64" y="{:.1}" text-anchor="end">{}</text>"##,
            x(10_f64.powf(right)),
            at + 4.0,
            format_time(10_f64.powi(power)),
        );
    }
    for (number, line) in series.iter().enumerate() {
        let colour = HUES[number % HUES.len()];
        let dash = if line.who == "zvf" { "" } else { r#" stroke-dasharray="5 3""# };
        let path: Vec<String> =
            line.points().map(|(n, t)| format!("{:.1},{:.1}", x(n), y(t))).collect();
        let _ = writeln!(
            body,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"{dash}/><text x="{:.0}" y="{}" fill="{colour}">{} ({}): n^{:.2}</text>"#,
            path.join(" "),
            WIDTH - 220.0,
            28 + number * 15,
            escape_xml(&line.work),
            escape_xml(&line.who),
            line.exponent(),
        );
    }
    Some(format_svg(height.max(40.0 + 15.0 * series.len() as f64), &body))
}

fn format_svg(height: f64, body: &str) -> String {
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0} {height:.0}" width="{WIDTH:.0}" height="{height:.0}" font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>
{body}</svg>
"##
    )
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const fn role_colour(role: Role) -> &'static str {
    match role {
        Role::Zvf | Role::Variant => "#1f5fa8",
        Role::Reference => "#b3261e",
        Role::Peer => "#e0902f",
        Role::Limit => "#9a9a9a",
    }
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 60.0;
const HUES: [&str; 8] =
    ["#1f5fa8", "#b3261e", "#2e7d32", "#e0902f", "#6a3fa0", "#00838f", "#8d6e63", "#555"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Side, Turn};
    use crate::series::{Amount, Step};

    #[test]
    fn bars_are_as_long_as_the_ratio_says() {
        let side = |name: &str, role, seconds| Side {
            stored: None,
            name: name.into(),
            role,
            result: Ok(Turn::from_seconds(seconds)),
        };
        let sides = vec![
            side("zvf", Role::Zvf, 0.001),
            side("<theirs>", Role::Reference, 0.1),
            side("plain", Role::Limit, 0.0001),
        ];
        let row = Row {
            part: "ask",
            work: "a & b".into(),
            count: None,
            bars: Vec::new(),
            sides,
            profile: None,
        };
        let svg = plot_bars(&[&row]).unwrap();
        // 10^-1 to 10^2 over 610 pixels: one power is 203.3.
        assert!(svg.contains(r#"<rect x="433.3" y="47" width="406.7""#), "{svg}");
        assert!(svg.contains(r#"<rect x="230.0" y="62" width="203.3""#), "{svg}");
        assert!(
            svg.contains("a &amp; b") && svg.contains("&lt;theirs&gt;") && svg.contains(">100.00<")
        );
        assert_eq!(plot_bars(&[]), None);
    }

    #[test]
    fn lines_go_through_their_points() {
        let step = |elements, seconds| Step {
            amount: Amount { elements, ..Amount::default() },
            seconds,
            memory: None,
        };
        let (work, who) = ("all".to_owned(), "zvf".to_owned());
        let steps = vec![step(10, 0.001), step(100, 0.01)];
        let line = Series { part: "grow", work, who, is_ours: true, steps, last_row: 0 };
        let svg = plot_lines(&[&line]).unwrap();
        assert!(svg.contains(r#"<polyline points="70.0,270.0 670.0,20.0""#), "{svg}");
        assert!(svg.contains("all (zvf): n^1.00"));
        assert_eq!(plot_lines(&[]), None);
    }
}
