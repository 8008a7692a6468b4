//! Who had each CPU over time: a row for each CPU, a bar for each time.

use super::Hue;
use super::canvas::{Canvas, WIDTH, width};
use super::scale::Scale;

/// A CPU.
#[derive(Clone, Debug)]
pub(crate) struct CpuRow {
    /// Its name.
    pub label: String,
    /// Who had it, from the left: a name and how it is painted, or nobody; and for how many columns.
    pub stretches: Vec<(Option<(String, Hue)>, u32)>,
}

const ROW: f64 = 17.0;
const BAR: f64 = 13.0;
const AXIS: f64 = 22.0;

/// CPUs below one another, on one scale of ms from 0, with columns of `column_ms`; none where there are none.
pub(crate) fn cpu_rows(rows: &[CpuRow], column_ms: f64) -> Option<Canvas> {
    let columns = |row: &CpuRow| row.stretches.iter().map(|(_, columns)| columns).sum::<u32>();
    let most = rows.iter().map(columns).max().filter(|&most| most > 0)?;
    let left = rows.iter().map(|row| width(&row.label) + 10.0).fold(0.0, f64::max);
    let x = Scale::linear(0.0..f64::from(most) * column_ms, left..WIDTH - 2.0);
    let foot = ROW * rows.len() as f64;
    let mut canvas = Canvas::new(foot + AXIS);
    let ticks = x.ticks(4);
    canvas.names(foot + AXIS - 10.0, ticks.iter().map(|(tick, name)| (x.at(*tick), format!("{name} ms"))));
    for (index, row) in rows.iter().enumerate() {
        let top = ROW * index as f64;
        canvas.label("ink", (2.0, top + BAR / 2.0), &row.label, left - 4.0);
        canvas.rect("panel", left..WIDTH - 2.0, top..top + BAR, "");
        let mut column = 0;
        for (holder, columns) in &row.stretches {
            let [from_ms, to_ms] = [column, column + columns].map(|column| f64::from(column) * column_ms);
            column += columns;
            if let Some((name, hue)) = holder {
                let hover = format!("{}, {name}: {from_ms} to {to_ms} ms", row.label);
                canvas.rect(hue.class(), x.at(from_ms)..x.at(to_ms), top..top + BAR, &hover);
            }
        }
    }
    Some(canvas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_where_their_columns_are() {
        let a = || Some(("a".to_owned(), Hue::Series(1)));
        let row = |stretches| CpuRow { label: "CPU 0".into(), stretches };
        let rows = [row(vec![(a(), 1), (None, 2), (a(), 1)]), row(vec![(None, 4)])];
        let svg = cpu_rows(&rows, 2.0).unwrap().finish("t", "d").into_string();
        assert!(svg.contains("CPU 0, a: 0 to 2 ms") && svg.contains("CPU 0, a: 6 to 8 ms"), "{svg}");
        let number = |rect: &str, name: &str| -> f64 {
            let rest = rect.split_once(&format!("{name}=\"")).unwrap().1;
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        let bars: Vec<(f64, f64)> = svg
            .split("<rect ")
            .filter(|rect| rect.contains("h1"))
            .map(|rect| (number(rect, " x").max(number(rect, "x")), number(rect, "width")))
            .collect();
        let [(first, width), (last, same)] = bars[..] else { panic!("{svg}") };
        assert!((width - same).abs() < 0.1 && (last - first - 3.0 * width).abs() < 0.3, "{bars:?}");
        assert!(cpu_rows(&[], 2.0).is_none() && cpu_rows(&[row(vec![])], 2.0).is_none());
    }
}
