//! A race: how far behind the best each entrant was after each of its runs, until it was dropped.

use super::signed_percent;
use super::{Axis, Canvas, Chart, EndLabel, Hue, Mark, Role, TO_MEMORY, WIDTH, dressed, place, quarters};
use crate::words::short;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

/// Whoever takes longer than so many times the best is at the edge, even if it stands out.
const HIGHEST: f64 = 100.0;
/// With more entrants than these, the intervals of those that don't stand out would be a thicket.
const MOST_INTERVALS: usize = 30;
/// With more that stand out than these, only the last interval of each is drawn.
const MOST_PROMINENT: usize = 4;

/// One entrant, from its first run to its last.
#[derive(Clone, Debug)]
pub struct Racer {
    /// Its name, written beside the chart; empty where it needn't be named.
    pub label: String,
    /// How it is painted when it stands out.
    pub hue: Hue,
    /// Whether it stands out; the others are thin and grey.
    pub prominent: bool,
    /// Its runs in their order.
    pub steps: Vec<Step>,
    /// How it left the race before the end.
    pub exit: Option<Exit>,
}

/// One run, and what was known of its entrant after the run's block.
#[derive(Clone, Debug)]
pub struct Step {
    /// Position among all runs of the race, from 1.
    pub order: u32,
    /// Its time over the best's; no number where none is known.
    pub ratio: f64,
    /// The interval of that.
    pub interval: Option<(f64, f64)>,
    /// What hovering tells.
    pub hover: String,
}

/// How an entrant left a race before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Shown to be slower than the best.
    Slower,
    /// Its run was cut off.
    CutOff,
    /// Others were better so far.
    Halved,
    /// Its run failed.
    Failed,
}

impl Exit {
    /// The shape of its mark, for legends.
    pub fn glyph(self) -> &'static str {
        match self {
            Self::Slower => "■",
            Self::CutOff => "┤",
            Self::Halved => "○",
            Self::Failed => "×",
        }
    }

    /// The colour of its mark, as [`Hue::class`] names it: what isn't shown stays grey.
    pub fn class(self) -> &'static str {
        if self == Self::Halved { Hue::Neutral.class() } else { Hue::Worse.class() }
    }
}

impl Chart {
    /// Each entrant's way through a race: runs to the right, how much slower than the best it seems upward, on a
    /// logarithmic scale. `blocks` are the numbers of runs after which each block ended; a block is as wide as the square
    /// root of its runs, so that the last ones, of a few finalists each, aren't lost beside the first. Those far behind
    /// sit at the upper edge, and so do those of which nothing is known but that they were too slow.
    pub fn race(&self, racers: &[Racer], blocks: &[u32]) -> Option<String> {
        let known = |step: &&Step| step.ratio.is_finite() && step.ratio > 0.0;
        let steps = || racers.iter().flat_map(|racer| &racer.steps);
        steps().find(known)?;
        let course = Course::new(blocks, steps().map(|step| step.order).max()?);
        let failures = racers.iter().any(|racer| racer.exit == Some(Exit::Failed));
        let (left, right, top, bottom) = (46, 92, 8, if failures { 50 } else { 34 });
        let height = 266 + bottom;
        let foot = height - bottom;
        let x = Axis::new(0.0..course.length(), left..WIDTH - right);
        let y = Axis::new(heights(racers), foot..top);
        let at = |step: &Step| {
            let height = if step.ratio.is_finite() && step.ratio > 0.0 { step.ratio.ln() } else { f64::INFINITY };
            (x.at(course.at(f64::from(step.order) - 0.5)), y.at(height.clamp(y.range.start, y.range.end)))
        };
        let mut svg = String::new();
        let mut canvas = Canvas::new(&mut svg, height);
        let linear = Axis::new(y.range.start.exp()..y.range.end.exp(), foot..top);
        let best = y.at(0.0);
        let ticks = linear.ticks(7).into_iter().filter(|&tick| tick > 0.0 && (y.at(tick.ln()) - best).abs() > 10.0);
        let named = ticks.map(|tick| (Role::Grid, y.at(tick.ln()), signed_percent(tick - 1.0)));
        for (role, height, name) in named.chain([(Role::Ink, best, "best".into())]) {
            canvas.line(role, [(f64::from(left), height), (f64::from(WIDTH - right), height)]);
            canvas.text(Role::Muted, (f64::from(left - 6), height), HPos::Right, &name);
        }
        // The last block's number always has its place, so they are written from there.
        let mut free = f64::MAX;
        for &runs in blocks.iter().rev() {
            let place = x.at(course.at(f64::from(runs)));
            canvas.line(Role::Grid, [(place, f64::from(top)), (place, f64::from(foot))]);
            if place + 10.0 < free {
                canvas.text(Role::Muted, (place, f64::from(foot + 12)), HPos::Center, &runs.to_string());
                free = place - 10.0;
            }
        }
        canvas.text(Role::Muted, ((left + WIDTH - right) / 2, height - 8), HPos::Center, "runs so far");
        if failures {
            canvas.text(Role::Muted, (left - 6, foot + 26), HPos::Right, "failed");
        }
        let (prominent, others): (Vec<&Racer>, Vec<&Racer>) = racers.iter().partition(|racer| racer.prominent);
        for racer in others.iter().chain(&prominent) {
            let role = if racer.prominent { Role::Hue(racer.hue) } else { Role::Faint };
            let way: Vec<(f64, f64)> = racer.steps.iter().filter(known).map(at).collect();
            if way.len() > 1 {
                canvas.line(role, way);
            }
        }
        let every_interval = prominent.len() <= MOST_PROMINENT;
        for racer in others.iter().chain(&prominent) {
            let role = if racer.prominent { Role::Hue(racer.hue) } else { Role::Faint };
            for (index, step) in racer.steps.iter().enumerate() {
                let (is_last, place) = (index + 1 == racer.steps.len(), at(step));
                let interval = step.interval.filter(|(low, high)| *low > 0.0 && high >= low);
                let is_drawn = match racer.prominent {
                    true => is_last || every_interval,
                    false => is_last && racers.len() <= MOST_INTERVALS,
                };
                if let Some((low, high)) = interval.filter(|_| is_drawn) {
                    let end = |ratio: f64| y.at(ratio.ln().clamp(y.range.start, y.range.end));
                    canvas.line(Role::Faint, [(place.0, end(low)), (place.0, end(high))]);
                }
                match racer.exit.filter(|_| is_last) {
                    Some(Exit::Failed) => canvas.cross((place.0, f64::from(foot + 26)), &step.hover),
                    Some(exit) => canvas.exit(exit, racer, place, &step.hover),
                    None if racer.prominent => canvas.mark(racer.hue, Mark::Counted, place, &step.hover),
                    None => canvas.dot(role, place, &step.hover),
                }
            }
        }
        let edge = f64::from(WIDTH - right);
        let mut labels = Vec::new();
        for racer in prominent.iter().filter(|racer| !racer.label.is_empty()) {
            let Some(end) = racer.steps.iter().rfind(known).map(at) else { continue };
            let (role, text) = (Role::Hue(racer.hue), short(&racer.label, 13));
            labels.push(EndLabel { end, role, text, hover: racer.label.clone() });
        }
        canvas.end_labels(labels, edge + 8.0, f64::from(top + 4)..f64::from(foot));
        let hovers = canvas.finish();
        Some(dressed(&svg, self, &hovers))
    }
}

/// Where runs lie from left to right.
struct Course {
    /// Runs, and the way until then, at the start and after each block.
    posts: Vec<(f64, f64)>,
}

impl Course {
    fn new(blocks: &[u32], last: u32) -> Self {
        let mut posts = vec![(0.0, 0.0)];
        for runs in blocks.iter().chain([&last]).map(|&runs| f64::from(runs)) {
            let (before, way) = posts[posts.len() - 1];
            if runs > before {
                posts.push((runs, way + (runs - before).sqrt()));
            }
        }
        Self { posts }
    }

    fn length(&self) -> f64 {
        self.posts.last().map_or(1.0, |(_, way)| way.max(1.0))
    }

    /// The way until so many runs are over.
    fn at(&self, runs: f64) -> f64 {
        let leg = self.posts.windows(2).find(|leg| runs <= leg[1].0);
        leg.map_or(self.length(), |leg| {
            let ((from, start), (to, end)) = (leg[0], leg[1]);
            start + (end - start) * ((runs - from) / (to - from)).max(0.0)
        })
    }
}

/// The logarithms of ratios that the scale holds: whatever stands out, and of the others all but stragglers.
fn heights(racers: &[Racer]) -> std::ops::Range<f64> {
    let logs = |racer: &Racer| -> Vec<f64> {
        racer.steps.iter().filter(|step| step.ratio > 0.0 && step.ratio.is_finite()).map(|s| s.ratio.ln()).collect()
    };
    let mut ends: Vec<f64> = racers.iter().filter_map(|racer| logs(racer).last().copied()).collect();
    ends.sort_by(f64::total_cmp);
    let most = ends.last().copied().unwrap_or(0.0);
    let typical = ends.get(ends.len() * 9 / 10).copied().unwrap_or(most);
    let standing_out = || racers.iter().filter(|racer| racer.prominent);
    let reach = standing_out().flat_map(logs).fold(most.min(1.25 * typical).max(0.02), f64::max).min(HIGHEST.ln());
    let lows = standing_out().flat_map(|racer| &racer.steps).filter_map(|step| Some(step.interval?.0.ln()));
    let lowest = lows.chain(ends.iter().copied()).filter(|low| low.is_finite()).fold(0.0, f64::min);
    lowest.max(-reach / 4.0) - reach / 20.0..reach * 1.06
}

impl Canvas<'_> {
    /// The end of an entrant that was dropped.
    fn exit(&mut self, exit: Exit, racer: &Racer, at: (f64, f64), hover: &str) {
        let role = match exit {
            _ if racer.prominent => Role::Hue(racer.hue),
            Exit::Halved => Role::Faint,
            _ => Role::Hue(Hue::Worse),
        };
        match exit {
            Exit::Failed => self.cross(at, hover),
            Exit::CutOff => self.stop(role, at, hover),
            Exit::Halved => self.ring(role, at, hover),
            Exit::Slower => {
                let style = self.address(role, hover).filled();
                let ((x, y), arm) = (place(at), quarters(1.9));
                let corners = [(x - arm, y - arm), (x + arm, y - arm), (x + arm, y + arm), (x - arm, y + arm)];
                self.backend.fill_polygon(corners, &style).expect(TO_MEMORY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart { title: "race".into(), description: "described".into() }
    }

    fn racer(label: &str, ratios: &[(u32, f64)], exit: Option<Exit>) -> Racer {
        let step = |&(order, ratio): &(u32, f64)| Step {
            order,
            ratio,
            interval: Some((ratio / 1.1, ratio * 1.1)),
            hover: format!("{label} {order}"),
        };
        let steps = ratios.iter().map(step).collect();
        Racer { label: label.into(), hue: Hue::Series(1), prominent: !label.is_empty(), steps, exit }
    }

    #[test]
    fn a_race_without_a_usable_value_is_none() {
        assert_eq!(chart().race(&[], &[]), None);
        assert_eq!(chart().race(&[racer("a", &[(1, f64::NAN), (2, 0.0)], Some(Exit::Failed))], &[2]), None);
    }

    #[test]
    fn values_that_are_no_numbers_leave_no_trace() {
        let odd = racer("odd", &[(1, f64::INFINITY), (2, -1.0), (3, f64::NAN), (4, 1e300), (5, 1.0)], None);
        let svg = chart().race(&[odd, racer("", &[(6, f64::NAN)], Some(Exit::CutOff))], &[3, 3, 0]).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("<title> 6</title>"), "who never had a value is at the edge: {svg}");
    }

    #[test]
    fn every_exit_has_its_mark_and_the_best_its_line() {
        let exits = [Exit::Slower, Exit::CutOff, Exit::Halved, Exit::Failed];
        let mut racers = vec![racer("best", &[(1, 1.0), (6, 1.0)], None)];
        racers.extend((2_u32..).zip(exits).map(|(order, exit)| racer("", &[(order, 1.2)], Some(exit))));
        let svg = chart().race(&racers, &[5, 6]).unwrap();
        for mark in [
            "class=\"f-worse\"><title> 2</title></polygon>",
            "class=\"s-worse\"><title> 3</title></polyline>",
            "class=\"s-faint\"><title> 4</title></circle>",
            "class=\"s-failed\"><title> 5</title></polyline>",
        ] {
            assert!(svg.contains(mark), "{mark}: {svg}");
        }
        assert!(svg.contains("best</text>") && svg.contains("failed</text>"), "{svg}");
    }

    #[test]
    fn late_blocks_of_few_runs_get_room() {
        let course = Course::new(&[200, 204, 208], 208);
        let share = |from: f64, to: f64| (course.at(to) - course.at(from)) / course.length();
        assert!(share(0.0, 200.0) < 0.8 && share(204.0, 208.0) > 0.1);
        assert_eq!((course.at(0.0), course.at(208.0), course.at(1e9)), (0.0, course.length(), course.length()));
        assert!((0..208).all(|run| course.at(f64::from(run)) < course.at(f64::from(run + 1))));
    }

    #[test]
    fn names_stay_apart_where_lines_end_together() {
        let names = ["a", "b", "c", "d", "e"];
        let racers: Vec<Racer> = (1_u32..).zip(names).map(|(order, name)| racer(name, &[(order, 1.0)], None)).collect();
        let svg = chart().race(&racers, &[5]).unwrap();
        let height = |name: &str| -> f64 {
            let end = svg.find(&format!("{name}</text>")).unwrap();
            let tag = &svg[svg[..end].rfind("<text ").unwrap()..end];
            tag.split(" y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        let mut heights = names.map(height);
        heights.sort_by(f64::total_cmp);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 13.9 * 4.0), "{heights:?}");
    }
}
