//! A race: how far behind the best each entrant was after each of its runs, until it was dropped.

use super::canvas::{Anchor, Canvas, EndLabel, Shape, WIDTH};
use super::scale::Scale;
use super::{Hue, signed_percent};
use stats::DropReason;
use std::ops::Range;

/// Whoever takes longer than so many times the best is at the edge, even if it stands out.
const HIGHEST: f64 = 100.0;
/// With more entrants than these, the intervals of those that don't stand out would be a thicket.
const MOST_INTERVALS: usize = 30;
/// With more that stand out than these, only the last interval of each is drawn.
const MOST_PROMINENT: usize = 4;

/// One entrant, from its first run to its last.
#[derive(Clone, Debug)]
pub(crate) struct Racer {
    /// Its name, written beside the chart; empty where it needn't be named.
    pub label: String,
    /// How it is painted when it stands out.
    pub hue: Hue,
    /// Whether it stands out; the others are thin and grey.
    pub prominent: bool,
    /// Its runs in their order.
    pub steps: Vec<Step>,
    /// How it left the race before the end.
    pub exit: Option<DropReason>,
}

/// One run, and what was known of its entrant after the run's block.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Position among all runs of the race, from 1.
    pub order: u32,
    /// Its time over the best's; no number where none is known.
    pub ratio: f64,
    /// The interval of that.
    pub interval: Option<(f64, f64)>,
    /// What hovering tells.
    pub hover: String,
}

fn shape(exit: DropReason) -> Shape {
    match exit {
        DropReason::Slower => Shape::Block,
        DropReason::Outpaced => Shape::Stop,
        DropReason::Halved => Shape::Ring,
        DropReason::Failed => Shape::Cross,
    }
}

/// The mark of an entrant that left so, for legends.
pub(crate) fn exit_glyph(exit: DropReason) -> &'static str {
    shape(exit).glyph()
}

/// The colour of that mark, as [`Hue::class`] names it: what isn't shown stays grey.
pub(crate) fn exit_class(exit: DropReason) -> &'static str {
    if exit == DropReason::Halved { Hue::Neutral.class() } else { Hue::Worse.class() }
}

impl Racer {
    /// The class of its line and of its marks.
    fn class(&self) -> &'static str {
        if self.prominent { self.hue.class() } else { "faint" }
    }

    /// The class and shape of the mark of its last run, or of the others.
    fn mark(&self, is_last: bool) -> (&'static str, Shape) {
        match self.exit.filter(|_| is_last) {
            Some(exit @ DropReason::Failed) => (exit_class(exit), shape(exit)),
            Some(exit @ (DropReason::Slower | DropReason::Outpaced)) if !self.prominent => {
                (exit_class(exit), shape(exit))
            }
            Some(exit) => (self.class(), shape(exit)),
            None if self.prominent => (self.class(), self.hue.shape()),
            None => (self.class(), Shape::Dot),
        }
    }

    /// Its known ratios, in their order.
    fn ratios(&self) -> impl Iterator<Item = f64> + '_ {
        self.steps.iter().filter(|step| step.is_known()).map(|step| step.ratio)
    }
}

impl Step {
    fn is_known(&self) -> bool {
        self.ratio.is_finite() && self.ratio > 0.0
    }
}

/// Each entrant's way through a race: runs to the right, how much slower than the best it seems upward, on a
/// logarithmic scale. `blocks` are the numbers of runs after which each block ended; a block is as wide as the square
/// root of its runs, so that the last ones, of a few finalists each, aren't lost beside the first. Those far behind
/// sit at the upper edge, and so do those of which nothing is known but that they were too slow.
pub(crate) fn race(racers: &[Racer], blocks: &[u32]) -> Option<Canvas> {
    let steps = || racers.iter().flat_map(|racer| &racer.steps);
    steps().find(|step| step.is_known())?;
    let course = Course::new(blocks, steps().map(|step| step.order).max()?);
    let has_failures = racers.iter().any(|racer| racer.exit == Some(DropReason::Failed));
    let (left, right, top, foot) = (50.0, WIDTH - 92.0, 8.0, 266.0);
    let height = foot + if has_failures { 50.0 } else { 34.0 };
    let x = Scale::linear(0.0..course.length(), left..right);
    let y = Scale::logarithmic(heights(racers), foot..top);
    let at = |step: &Step| {
        let ratio = if step.is_known() { step.ratio } else { f64::INFINITY };
        (x.at(course.at(f64::from(step.order) - 0.5)), y.within(ratio))
    };
    let mut canvas = Canvas::new(height);
    let ticks = y.ticks(7).into_iter().filter(|(tick, _)| *tick > 0.0);
    let losses = ticks.map(|(tick, _)| (tick, signed_percent(tick - 1.0)));
    canvas.levels(&y, left..right, Some((1.0, "best")), losses);
    let ends = || blocks.iter().rev().map(|&runs| (x.at(course.at(f64::from(runs))), runs));
    for (place, _) in ends() {
        canvas.line("grid", [(place, top), (place, foot)]);
    }
    // The last block's number always has its place, since it comes first.
    canvas.names(foot + 12.0, ends().map(|(place, runs)| (place, runs.to_string())));
    canvas.text("muted", ((left + right) / 2.0, height - 8.0), Anchor::Middle, "runs so far");
    if has_failures {
        canvas.text("muted", (left - 6.0, foot + 26.0), Anchor::End, "failed");
    }
    let (prominent, others): (Vec<&Racer>, Vec<&Racer>) = racers.iter().partition(|racer| racer.prominent);
    let in_front_last = || others.iter().chain(&prominent);
    for racer in in_front_last() {
        let way: Vec<(f64, f64)> = racer.steps.iter().filter(|step| step.is_known()).map(at).collect();
        if way.len() > 1 {
            canvas.line(racer.class(), way);
        }
    }
    for racer in in_front_last() {
        for (index, step) in racer.steps.iter().enumerate() {
            let (is_last, (place, level)) = (index + 1 == racer.steps.len(), at(step));
            let has_bar = match racer.prominent {
                true => is_last || prominent.len() <= MOST_PROMINENT,
                false => is_last && racers.len() <= MOST_INTERVALS,
            };
            let interval = step.interval.filter(|(low, high)| has_bar && *low > 0.0 && high >= low);
            if let Some((low, high)) = interval {
                canvas.line("faint", [(place, y.within(low)), (place, y.within(high))]);
            }
            let (class, shape) = racer.mark(is_last);
            let is_failure = is_last && racer.exit == Some(DropReason::Failed);
            canvas.mark(class, shape, (place, if is_failure { foot + 26.0 } else { level }), &step.hover);
        }
    }
    let label = |racer: &&Racer| {
        let end = racer.steps.iter().rfind(|step| step.is_known()).map(at)?;
        Some(EndLabel { end, class: racer.class(), text: racer.label.clone() })
    };
    let labels = prominent.into_iter().filter(|racer| !racer.label.is_empty()).filter_map(|racer| label(&racer));
    canvas.end_labels(labels.collect(), right + 8.0, top + 4.0..foot);
    Some(canvas)
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

/// The ratios that the scale holds: whatever stands out, and of the others all but stragglers.
fn heights(racers: &[Racer]) -> Range<f64> {
    let mut ends: Vec<f64> = racers.iter().filter_map(|racer| racer.ratios().last()).map(f64::ln).collect();
    ends.sort_by(f64::total_cmp);
    let most = ends.last().copied().unwrap_or(0.0);
    let typical = ends.get(ends.len() * 9 / 10).copied().unwrap_or(most);
    let prominent = || racers.iter().filter(|racer| racer.prominent);
    let highs = prominent().flat_map(Racer::ratios).map(f64::ln);
    let reach = highs.fold(most.min(1.25 * typical).max(0.02), f64::max).min(HIGHEST.ln());
    let lows = prominent().flat_map(|racer| &racer.steps).filter_map(|step| Some(step.interval?.0.ln()));
    let lowest = lows.chain(ends.iter().copied()).filter(|low| low.is_finite()).fold(0.0, f64::min);
    (lowest.max(-reach / 4.0) - reach / 20.0).exp()..(reach * 1.06).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(racers: &[Racer], blocks: &[u32]) -> Option<String> {
        race(racers, blocks).map(|canvas| canvas.finish("race", "described").into_string())
    }

    fn racer(label: &str, ratios: &[(u32, f64)], exit: Option<DropReason>) -> Racer {
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
        assert!(drawn(&[], &[]).is_none());
        assert!(drawn(&[racer("a", &[(1, f64::NAN), (2, 0.0)], Some(DropReason::Failed))], &[2]).is_none());
    }

    #[test]
    fn values_that_are_no_numbers_leave_no_trace() {
        let odd = racer("odd", &[(1, f64::INFINITY), (2, -1.0), (3, f64::NAN), (4, 1e300), (5, 1.0)], None);
        let svg = drawn(&[odd, racer("", &[(6, f64::NAN)], Some(DropReason::Outpaced))], &[3, 3, 0]).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("<title> 6</title>"), "who never had a value is at the edge: {svg}");
    }

    #[test]
    fn every_exit_has_its_mark_and_the_best_its_line() {
        let exits = [DropReason::Slower, DropReason::Outpaced, DropReason::Halved, DropReason::Failed];
        let mut racers = vec![racer("best", &[(1, 1.0), (6, 1.0)], None)];
        racers.extend((2_u32..).zip(exits).map(|(order, exit)| racer("", &[(order, 1.2)], Some(exit))));
        let svg = drawn(&racers, &[5, 6]).unwrap();
        for (order, class, shape) in [
            (2, "worse", Shape::Block),
            (3, "worse open", Shape::Stop),
            (4, "faint open", Shape::Ring),
            (5, "worse open", Shape::Cross),
        ] {
            let end = format!("{}\"><title> {order}</title></path>", shape.path());
            let is_mark = |path: &&str| path.starts_with(&format!("class=\"{class}\"")) && path.contains(&end);
            assert_eq!(svg.split("<path ").filter(is_mark).count(), 1, "{order}: {svg}");
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
        let svg = drawn(&racers, &[5]).unwrap();
        let height = |name: &str| -> f64 {
            let end = svg.find(&format!("{name}</text>")).unwrap();
            let tag = &svg[svg[..end].rfind("<text ").unwrap()..end];
            tag.split(" y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        let mut heights = names.map(height);
        heights.sort_by(f64::total_cmp);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 13.9), "{heights:?}");
    }
}
