//! The jobs of a mix over time: a strip for each treatment, a bar for each job.

use super::Hue;
use super::canvas::{Anchor, Canvas, WIDTH, width};
use super::scale::{Scale, span};
use std::ops::Range;

/// One run of a mix.
#[derive(Clone, Debug)]
pub(crate) struct JobStrip {
    /// Its treatment.
    pub label: String,
    /// Its makespan in words.
    pub figure: String,
    /// When every job had ended once, in seconds.
    pub makespan_s: f64,
    /// A bar for each job.
    pub bars: Vec<JobBar>,
}

/// One job.
#[derive(Clone, Debug)]
pub(crate) struct JobBar {
    /// Its name.
    pub label: String,
    /// From its start to its end in seconds, if it ran.
    pub first_s: Option<Range<f64>>,
    /// Its later runs, likewise.
    pub later_s: Vec<Range<f64>>,
    /// How much it is slowed, in words; empty where that isn't known.
    pub figure: String,
    /// How it is painted.
    pub hue: Hue,
    /// What hovering tells.
    pub hover: String,
}

const HEAD: f64 = 18.0;
const ROW: f64 = 17.0;
const GAP: f64 = 10.0;
const AXIS: f64 = 22.0;
/// Names of jobs take no more room.
const MOST_NAME: f64 = 96.0;
/// Room for what stands beside a bar.
const BESIDE: f64 = 52.0;

/// Jobs over time, all strips on one scale of seconds from 0.
pub(crate) fn jobs(strips: &[JobStrip]) -> Option<Canvas> {
    let bars = || strips.iter().flat_map(|strip| &strip.bars);
    let ends = bars().flat_map(|bar| bar.first_s.iter().chain(&bar.later_s)).map(|run| run.end);
    let ends = span(ends.chain(strips.iter().map(|strip| strip.makespan_s)))?;
    if ends.end <= 0.0 {
        return None;
    }
    let left = bars().map(|bar| width(&bar.label) + 10.0).fold(36.0, f64::max).min(MOST_NAME);
    let x = Scale::linear(0.0..ends.end, left..WIDTH - BESIDE);
    let ticks = x.ticks(4);
    let height = |strip: &JobStrip| HEAD + ROW * strip.bars.len() as f64 + GAP;
    let foot: f64 = strips.iter().map(height).sum();
    let mut canvas = Canvas::new(foot + AXIS);
    canvas.names(foot + AXIS - 10.0, ticks.iter().map(|(tick, name)| (x.at(*tick), format!("{name} s"))));
    let mut top = 0.0;
    for strip in strips {
        canvas.row_head("ink", (2.0, top + 9.0), &strip.label, &strip.figure);
        let rows = top + HEAD..top + height(strip) - GAP;
        canvas.rect("panel", left..WIDTH - BESIDE, rows.clone(), "");
        for place in ticks.iter().map(|(tick, _)| x.at(*tick)) {
            canvas.line("grid", [(place, rows.start), (place, rows.end)]);
        }
        let makespan = Some(strip.makespan_s).filter(|s| s.is_finite()).map(|s| x.within(s));
        for (row, bar) in strip.bars.iter().enumerate() {
            draw(&mut canvas, bar, &x, (left, rows.start + ROW * row as f64), makespan);
        }
        if let Some(place) = makespan {
            canvas.rect("ink", place - 1.0..place + 1.0, rows.start - 2.0..rows.end + 2.0, "");
        }
        top += height(strip);
    }
    Some(canvas)
}

/// A job in the row below `top`: its name, its first run, thinner ones, and what is told of it beside them.
fn draw(canvas: &mut Canvas, bar: &JobBar, x: &Scale, (left, top): (f64, f64), makespan: Option<f64>) {
    let middle = top + ROW / 2.0;
    canvas.label("ink", (2.0, middle), &bar.label, left - 8.0);
    let is_run = |run: &&Range<f64>| run.start.is_finite() && run.end.is_finite() && run.start <= run.end;
    let places = |run: &Range<f64>| x.within(run.start)..x.within(run.end).max(x.within(run.start) + 1.0);
    let mut end = left;
    for run in bar.later_s.iter().filter(is_run).map(places) {
        end = run.end.max(end);
        // A hair apart, so that runs can be counted.
        canvas.rect(
            bar.hue.class(),
            run.start + 0.5..run.end.max(run.start + 1.0),
            middle - 1.5..middle + 1.5,
            &bar.hover,
        );
    }
    if let Some(run) = bar.first_s.as_ref().filter(is_run).map(places) {
        end = run.end.max(end);
        canvas.rect(bar.hue.class(), run, middle - 5.0..middle + 5.0, &bar.hover);
    }
    // Beside the bar where the mark of the makespan leaves room, else behind that.
    let room = width(&bar.figure) + 9.0;
    let place = match makespan {
        Some(mark) if end + room > mark => mark.max(end),
        _ => end,
    };
    if !bar.figure.is_empty() {
        canvas.text("muted", (place + 5.0, middle), Anchor::Start, &bar.figure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(first_s: Option<Range<f64>>, later_s: Vec<Range<f64>>) -> JobBar {
        let (label, figure) = ("cg".to_owned(), "2.10×".to_owned());
        JobBar { label, first_s, later_s, figure, hue: Hue::Series(1), hover: "cg ran".into() }
    }

    fn drawn(makespan_s: f64, bars: Vec<JobBar>) -> Option<String> {
        let strip = JobStrip { label: "scatter".into(), figure: "makespan 2 s".into(), makespan_s, bars };
        jobs(&[strip]).map(|canvas| canvas.finish("jobs", "described").into_string())
    }

    /// Places and widths of what is painted for the job.
    fn painted(svg: &str) -> Vec<[f64; 2]> {
        let number = |tag: &str, key: &str| -> f64 {
            tag.split(&format!(" {key}=\"")).nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap()
        };
        svg.split("<rect class=\"h1\"").skip(1).map(|tag| [number(tag, "x"), number(tag, "width")]).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_run_and_later_runs_follow_it() {
        let svg = drawn(2.0, vec![bar(Some(0.0..1.0), vec![1.0..2.0])]).unwrap();
        let [later, first] = painted(&svg)[..] else { panic!("{svg}") };
        assert!((first[1] - later[1]).abs() <= 1.0 && (first[0] + first[1] - later[0]).abs() <= 1.0, "{svg}");
        let half = drawn(2.0, vec![bar(Some(0.0..1.0), Vec::new()), bar(Some(0.0..2.0), Vec::new())]).unwrap();
        let [short, long] = painted(&half)[..] else { panic!("{half}") };
        assert!((long[1] - 2.0 * short[1]).abs() < 0.3, "{half}");
    }

    #[test]
    fn what_never_ran_has_no_bar_and_no_number_leaves_a_trace() {
        let wild = [None, Some(f64::NAN..1.0), Some(0.0..f64::INFINITY), Some(0.0..0.0)];
        let svg = drawn(1.0, wild.into_iter().map(|first| bar(first, vec![f64::NAN..f64::NAN])).collect()).unwrap();
        assert_eq!(painted(&svg).len(), 1, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!((drawn(f64::NAN, vec![bar(None, Vec::new())]), drawn(0.0, Vec::new())), (None, None));
        assert!(jobs(&[]).is_none());
    }

    #[test]
    fn what_is_told_of_a_job_never_stands_on_the_mark_of_the_makespan() {
        for end in [0.01, 0.5, 0.7, 0.8, 0.9, 0.99, 1.0] {
            let svg = drawn(1.0, vec![bar(Some(0.0..end), Vec::new())]).unwrap();
            let text = svg.split("<text ").find(|text| text.contains("2.10×")).unwrap();
            let at: f64 = text.split(" x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
            let mark = WIDTH - BESIDE;
            let is_before = at + width("2.10×") < mark - 1.0;
            assert!(is_before || at > mark + 1.0, "{end}: {at} beside {mark}");
            assert!(at + width("2.10×") <= WIDTH, "{end}");
        }
    }
}
