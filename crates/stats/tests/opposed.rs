//! How often numbers that programs report are refused as times: rates nearly always, times nearly never, whatever their
//! programs do besides. `--nocapture` prints the shares.

#[expect(dead_code, reason = "other tests draw more")]
#[path = "drawn/draw.rs"]
mod draw;

use draw::Draw;
use stayput_stats::{Opposition, ReportedAndTaken, opposition};

const STUDIES: u64 = 400;

/// Of each placement: the part of a run that is timed, and the rest of it, in seconds.
const PLACEMENTS: [(f64, f64); 3] = [(1.0, 0.5), (0.85, 0.5), (0.95, 0.5)];

/// A factor around 1 with a relative spread of `noise`.
fn factor(draw: &mut Draw, noise: f64) -> f64 {
    (noise * draw.normal()).exp()
}

/// The shares of studies in which opposition is found, and in which runs of the same placement say so, too. A study has 10 blocks at
/// two thread counts; `run` makes a run from the times of its timed part and of its rest.
fn shares(placements: [(f64, f64); 3], run: impl Fn(&mut Draw, f64, f64) -> ReportedAndTaken) -> (f64, f64) {
    let mut found: Vec<Opposition> = Vec::new();
    for study in 0..STUDIES {
        let mut draw = Draw::new(study);
        let mut group = |scale: f64| -> Vec<Vec<ReportedAndTaken>> {
            let cell = |(timed_s, rest_s): (f64, f64)| {
                (0..10)
                    .map(|_| {
                        let (timed, rest) = (factor(&mut draw, 0.02), factor(&mut draw, 0.02));
                        run(&mut draw, scale * timed_s * timed, rest_s * rest)
                    })
                    .collect()
            };
            placements.map(cell).into()
        };
        found.extend(opposition(&[group(1.0), group(0.5)]));
    }
    let share = |count: usize| count as f64 / STUDIES as f64;
    let within = found.iter().filter(|found| found.is_within_cells).count();
    println!("opposed {:.4}, within placements {:.4}", share(found.len()), share(within));
    (share(found.len()), share(within))
}

#[test]
fn rates_of_fixed_work_are_refused() {
    let (found, within) = shares(PLACEMENTS, |_, timed_s, rest_s| (0.4 / timed_s, timed_s + rest_s));
    assert!(found >= 0.95 && within >= 0.95, "{found} {within}");
}

#[test]
fn times_of_a_part_are_not_refused() {
    assert_eq!(shares(PLACEMENTS, |_, timed_s, rest_s| (timed_s, timed_s + rest_s)).0, 0.0);
    // What is timed is a hundredth of the whole.
    let (found, _) = shares(PLACEMENTS, |_, timed_s, rest_s| (0.01 * timed_s, 0.01 * timed_s + rest_s));
    assert!(found <= 0.005, "{found}");
}

#[test]
fn numbers_of_programs_that_run_for_a_fixed_time_are_not_refused() {
    let (found, _) = shares(PLACEMENTS, |draw, timed_s, _| (0.4 / timed_s, 10.0 * factor(draw, 0.001)));
    assert!(found <= 0.005, "{found}");
}

#[test]
fn a_placement_that_helps_what_is_timed_and_harms_the_rest_is_told_and_not_refused() {
    let opposed = [(1.0, 3.0), (0.85, 4.0), (0.92, 3.5)];
    let (found, within) = shares(opposed, |_, timed_s, rest_s| (0.1 * timed_s, 0.1 * timed_s + rest_s));
    assert!(found >= 0.9, "the whole takes longer where the number is lower: {found}");
    assert!(within <= 0.02, "{within}");
}
