// SPDX-License-Identifier: BSD-2-Clause
//! Curves of hit rates: in a terminal, and as a picture (SVG). To the right the memory doubles at each step.

#[derive(Clone, PartialEq, Debug)]
pub struct ChartCurve {
    pub name: String,
    pub points: Vec<(u64, f64)>,
}

impl ChartCurve {
    /// Percent at a place between the first size (0) and the last (1).
    fn at(&self, place: f64, span: Span) -> Option<f64> {
        let wanted = span.first + place * (span.last - span.first);
        let logs: Vec<(f64, f64)> = self.points.iter().map(|(size, percent)| (log(*size), *percent)).collect();
        let after = logs.iter().position(|(size, _)| *size >= wanted - 1e-9)?;
        let (right, high) = logs[after];
        let Some(&(left, low)) = after.checked_sub(1).and_then(|before| logs.get(before)) else {
            return (right <= wanted + 1e-9).then_some(high);
        };
        Some(low + (high - low) * (wanted - left) / (right - left).max(1e-9))
    }
}

#[derive(Clone, Copy)]
struct Span {
    first: f64,
    last: f64,
}

fn log(size: u64) -> f64 {
    (size.max(1) as f64).log2()
}

/// From the least size to the greatest; `None`: there is only one.
fn span(curves: &[ChartCurve]) -> Option<Span> {
    let sizes = || curves.iter().flat_map(|curve| curve.points.iter().map(|(size, _)| log(*size)));
    let (first, last) = (sizes().fold(f64::MAX, f64::min), sizes().fold(f64::MIN, f64::max));
    (first < last).then_some(Span { first, last })
}

/// A span with one size in the middle.
fn around(curves: &[ChartCurve]) -> Span {
    let size = curves.iter().find_map(|curve| curve.points.first()).map_or(0.0, |point| log(point.0));
    Span { first: size - 0.5, last: size + 0.5 }
}

/// A size such as `512k` or `1.5G`.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 9.95 && (value - value.round()).abs() >= 0.05);
    format!("{value:.digits$}{}", UNITS[unit])
}

const MARKS: [char; 2] = ['*', 'o'];

/// A chart for a terminal of 80 columns; of the first two curves. Nothing when there is only one size.
pub fn text(curves: &[ChartCurve]) -> String {
    const WIDTH: usize = 66;
    const HEIGHT: usize = 10;
    let curves = &curves[..curves.len().min(MARKS.len())];
    let Some(span) = span(curves) else { return String::new() };
    let mut rows = vec![vec![' '; WIDTH + 1]; HEIGHT + 1];
    // The first is drawn last: where both are the same, it is seen.
    for (curve, mark) in curves.iter().zip(MARKS).rev() {
        let places = (0..=WIDTH).map(|column| (column, curve.at(column as f64 / WIDTH as f64, span)));
        for (column, percent) in places.filter_map(|(column, percent)| Some((column, percent?))) {
            let row = HEIGHT - (percent / 100.0 * HEIGHT as f64).round() as usize;
            rows[row.min(HEIGHT)][column] = mark;
        }
    }
    let mut text = String::new();
    for (n, row) in rows.iter().enumerate() {
        let percent = 100 - n * 100 / HEIGHT;
        let line: String = row.iter().collect();
        text += format!("{percent:>5} % |{line}").trim_end();
        text.push('\n');
    }
    text += &format!("{:>8}+{}\n", "", "-".repeat(WIDTH));
    text += labels(curves, span, WIDTH).trim_end();
    text.push('\n');
    let names: Vec<String> = curves.iter().zip(MARKS).map(|(curve, mark)| format!("{mark} {}", curve.name)).collect();
    text + &format!("{:>9}{}\n", "", names.join("   "))
}

fn labels(curves: &[ChartCurve], span: Span, width: usize) -> String {
    let mut line: Vec<char> = vec![' '; 80];
    let mut free = 0;
    for (size, _) in curves.iter().flat_map(|curve| &curve.points) {
        let place = ((log(*size) - span.first) / (span.last - span.first) * width as f64).round() as usize;
        let label: Vec<char> = human(*size).chars().collect();
        let from = (9 + place).saturating_sub(label.len() / 2).min(line.len() - label.len());
        if from >= free {
            line[from..from + label.len()].copy_from_slice(&label);
            free = from + label.len() + 1;
        }
    }
    line.into_iter().collect()
}

pub fn svg(curves: &[ChartCurve]) -> String {
    const COLOURS: [&str; 8] = ["#4a7ba6", "#c0504d", "#5a8f3c", "#8064a2", "#d08a2e", "#3a9a9a", "#7f7f7f", "#a64a7b"];
    const WIDTH: f64 = 640.0;
    const HEIGHT: f64 = 320.0;
    const LEFT: f64 = 60.0;
    const TOP: f64 = 20.0;
    let span = span(curves).unwrap_or_else(|| around(curves));
    let x = |size: u64| LEFT + (log(size) - span.first) / (span.last - span.first) * WIDTH;
    let y = |percent: f64| TOP + (100.0 - percent) / 100.0 * HEIGHT;
    let mut inner = String::new();
    for percent in [0, 20, 40, 60, 80, 100] {
        let at = y(f64::from(percent));
        inner += &format!(
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at}\" y2=\"{at}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{percent} %</text>\n",
            LEFT + WIDTH,
            LEFT - 8.0,
            at + 4.0
        );
    }
    let mut sizes: Vec<u64> = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        inner += &format!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            x(size),
            TOP + HEIGHT + 20.0,
            human(size)
        );
    }
    for (n, curve) in curves.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        let places: Vec<String> =
            curve.points.iter().map(|(size, percent)| format!("{:.1},{:.1}", x(*size), y(*percent))).collect();
        // A line from a point to itself isn't seen.
        if let [(size, percent)] = curve.points[..] {
            inner += &format!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>\n", x(size), y(percent));
        }
        let at = TOP + HEIGHT + 48.0 + 18.0 * n as f64;
        inner += &format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{colour}\"/><text x=\"{}\" y=\"{at}\">{}</text>\n",
            places.join(" "),
            at - 6.0,
            LEFT + 22.0,
            escaped(&curve.name)
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{inner}</svg>\n",
        LEFT + WIDTH + 40.0,
        TOP + HEIGHT + 48.0 + 18.0 * curves.len() as f64
    )
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0"),
            (900, "900"),
            (1023, "1023"),
            (64 << 10, "64k"),
            (1536, "1.5k"),
            (1 << 20, "1M"),
            (3 << 29, "1.5G"),
            (12_345_678, "12M"),
            (1 << 63, "8192P"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn a_curve_in_a_terminal() {
        let curves = [
            ChartCurve { name: "lacquer".into(), points: vec![(1 << 20, 20.0), (2 << 20, 60.0), (4 << 20, 90.0)] },
            ChartCurve { name: "lru".into(), points: vec![(1 << 20, 0.0), (2 << 20, 50.0), (4 << 20, 90.0)] },
        ];
        let chart = text(&curves);
        assert!(chart.lines().all(|line| line.chars().count() <= 80), "{chart}");
        let lines: Vec<&str> = chart.lines().collect();
        assert!(lines[1].starts_with("   90 % |") && lines[1].ends_with('*'), "{chart}");
        assert!(lines[8].starts_with("   20 % |*") && lines[10].starts_with("    0 % |o"), "{chart}");
        assert_eq!(lines[12].split_whitespace().collect::<Vec<_>>(), ["1M", "2M", "4M"]);
        assert!(lines[13].contains("* lacquer   o lru"));
        assert_eq!(text(&[ChartCurve { name: String::new(), points: vec![(1, 5.0)] }]), "");
    }

    #[test]
    fn a_picture_is_well_formed() {
        let curve = |name: &str| ChartCurve { name: name.into(), points: vec![(1 << 20, 20.0), (4 << 20, 90.0)] };
        let picture = svg(&[curve("a<b>&\"\u{1}"), curve("c")]);
        assert!(picture.contains("a&lt;b&gt;&amp;&quot;<") && picture.matches("<polyline").count() == 2, "{picture}");
        assert!(!svg(&[]).contains("NaN"));
    }

    #[test]
    fn one_size_is_a_dot_in_the_picture() {
        for size in [1, 7, 64 << 20, 1 << 50] {
            let picture = svg(&[ChartCurve { name: "x".into(), points: vec![(size, 40.0)] }]);
            let after = |text: &str, name: &str| {
                let value = text.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
                value.and_then(|value| value.parse::<f64>().ok()).expect("a number")
            };
            let dot = picture.split("<circle").nth(1).expect("a dot");
            let width = after(&picture, "width");
            assert!((0.0..width).contains(&after(dot, "cx")) && after(dot, "cy") > 100.0, "{size}: {picture}");
            let label = picture.split("text-anchor=\"middle\"").next().and_then(|text| text.rsplit("<text").next());
            assert!((0.0..width).contains(&after(label.expect("a label"), "x")), "{size}: {picture}");
        }
    }
}
