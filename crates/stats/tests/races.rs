//! Races thousands of fields whose truth is known, and holds the verdicts to what they promise.
//!
//! `cargo test -p stayput-stats --test races -- --nocapture` prints the table. The seeds of each scenario are 0, 1, 2...

mod drawn;

use drawn::{Draw, Field, of_papers};
use proptest::prelude::*;
use stayput_stats::{Claim, DropReason, LOOKS_AT_EACH, Outcome, PastStandings, Race, RaceRule, Run, is_look};
use std::collections::BTreeSet;

const RACES: u64 = 1_000;
/// How often a race must end within 2 % of the best, and its ties hold the best.
const SURE: f64 = 0.95;
/// How often an interval of the gain must hold it.
const COVERED: f64 = 0.94;
const NOISE: f64 = 0.02;
const SPREAD: f64 = 0.3;
const GUARANTEE: RaceRule = RaceRule::Guarantee { epsilon: 0.02, delta: 0.05, max_runs: 5_000 };

/// What came of the races of one scenario, as shares.
#[derive(Default)]
struct Tally {
    races: u64,
    good: f64,
    tied: f64,
    shown: f64,
    median_runs: usize,
    gains: f64,
    covered: f64,
    false_gains: f64,
}

/// Races `races` fields under the rules that go with them and prints a line.
fn tally(name: &str, races: u64, draw_field: impl Fn(&mut Draw, u64) -> (Field, RaceRule)) -> Tally {
    let (mut counts, mut runs_used) = ([0.0; 6], Vec::new());
    for seed in 0..races {
        let mut draw = Draw::new(seed);
        let (field, rule) = draw_field(&mut draw, seed);
        let race = field.race(rule, seed);
        let runs = field.conduct(&race, &mut draw);
        let standings = race.standings(&runs);
        assert!(runs.len() <= most_runs(rule), "{name}, seed {seed}");
        runs_used.push(runs.len());
        counts[0] += f64::from(field.is_good(standings.best));
        counts[1] += f64::from(standings.tied.iter().any(|&arm| field.times_s[arm] <= field.best_s()));
        counts[2] += f64::from(standings.difference_shown);
        if let (Some(best), Some(gain)) = (standings.best, standings.gain) {
            let reference = field.reference[best].expect("a gain is measured against a reference");
            let truth = field.times_s[reference] / field.times_s[best];
            counts[3] += 1.0;
            counts[4] += f64::from((gain.low..=gain.high).contains(&truth));
            let wrong = match gain.claim {
                Claim::Faster => truth <= 1.0,
                Claim::Slower => truth >= 1.0,
                Claim::NoneShown => false,
            };
            counts[5] += f64::from(wrong);
        }
    }
    runs_used.sort_unstable();
    let share = |count: f64, of: f64| count / of.max(1.0);
    let all = races as f64;
    let tally = Tally {
        races,
        good: share(counts[0], all),
        tied: share(counts[1], all),
        shown: share(counts[2], all),
        median_runs: runs_used[runs_used.len() / 2],
        gains: share(counts[3], all),
        covered: share(counts[4], counts[3]),
        false_gains: share(counts[5], counts[3]),
    };
    println!(
        "{name:44} good {:5.1} %, ties hold the best {:5.1} %, shown {:5.1} %, runs {:3}, gains {:5.1} % covered {:5.1} % false {:3.1} %",
        100.0 * tally.good,
        100.0 * tally.tied,
        100.0 * tally.shown,
        tally.median_runs,
        100.0 * tally.gains,
        100.0 * tally.covered,
        100.0 * tally.false_gains,
    );
    tally
}

impl Tally {
    fn expect_good(&self, name: &str) {
        assert!(self.good >= SURE, "{name}: {} of {} races were good", self.good, self.races);
        assert!(self.tied >= SURE, "{name}: ties held the best in {}", self.tied);
        assert!(self.gains < 0.5 || self.covered >= COVERED, "{name}: gains covered in {}", self.covered);
    }

    fn expect_nothing_shown(&self, name: &str) {
        assert!(self.shown <= 1.0 - SURE, "{name}: a difference was shown in {}", self.shown);
        assert!(self.gains < 0.5 || self.covered >= COVERED, "{name}: gains covered in {}", self.covered);
        assert!(self.false_gains <= 1.0 - SURE, "{name}: false gains in {}", self.false_gains);
    }
}

fn most_runs(rule: RaceRule) -> usize {
    match rule {
        RaceRule::Halving { runs } | RaceRule::Guarantee { max_runs: runs, .. } => runs as usize,
    }
}

fn halving(runs: u32) -> RaceRule {
    RaceRule::Halving { runs }
}

/// 5 % of drift over the race, and 3 % of runs 1.5 times slower.
fn messy(field: Field, drift_runs: usize) -> Field {
    Field { drift: 0.05, drift_runs, outliers: 0.03, ..field }
}

fn bimodal_reference(field: Field) -> Field {
    Field { bimodal: Some(0), ..field.against_first() }
}

#[test]
fn twenty_two_placements_within_two_percent_in_sixty_runs() {
    // A third of five repeats of each, and the most that may be used.
    for budget in [37, 60] {
        let name = format!("22 evenly over 30 %, halving {budget}");
        tally(&name, RACES, |draw, _| (Field::even(draw, 22, SPREAD, NOISE), halving(budget))).expect_good(&name);
        let name = format!("22 at random over 30 %, halving {budget}");
        tally(&name, RACES, |draw, _| (Field::uniform(draw, 22, SPREAD, NOISE), halving(budget))).expect_good(&name);
    }
}

#[test]
fn the_gain_over_a_reference_comes_with_it() {
    let name = "22 evenly, one the reference, halving 44";
    let even = |draw: &mut Draw| Field::even(draw, 22, SPREAD, NOISE);
    tally(name, RACES, |draw, _| (even(draw).against_first(), halving(44))).expect_good(name);
    let name = "likewise, messy, reference bimodal, halving 60";
    let found = tally(name, RACES, |draw, _| (bimodal_reference(messy(even(draw), 60)), halving(60)));
    assert!(found.good >= 0.94 && found.tied >= SURE, "{name}");
}

#[test]
fn two_hundred_placements_in_three_hundred_and_thirty_three_runs() {
    let name = "200 evenly over 30 %, halving 333";
    tally(name, RACES, |draw, _| (Field::even(draw, 200, SPREAD, NOISE), halving(333))).expect_good(name);
    let name = "200 at random over 30 %, messy, halving 333";
    let messy = |draw: &mut Draw| messy(Field::uniform(draw, 200, SPREAD, NOISE), 333);
    tally(name, RACES / 4, |draw, _| (messy(draw), halving(333))).expect_good(name);
}

#[test]
fn the_papers_subjects_in_six_tenths_of_five_repeats() {
    let fields = of_papers();
    assert_eq!(fields.len(), 6 * (4 + 1) + 10 * (7 + 1));
    let name = "the papers' subjects, 3 runs an arm";
    let budget = |field: &Field| halving(3 * field.times_s.len() as u32);
    let one = |seed: u64| &fields[seed as usize % fields.len()].1;
    tally(name, RACES, |_, seed| (one(seed).clone(), budget(one(seed)))).expect_good(name);
    for kind in ["2016: 3 arms", "2016: 12 arms", "2017: 2 arms", "2017: 14 arms"] {
        let ours: Vec<&Field> = fields.iter().filter(|(of, _)| *of == kind).map(|(_, field)| field).collect();
        let one = |seed: u64| ours[seed as usize % ours.len()];
        let found = tally(&format!("  {kind}"), RACES / 2, |_, seed| (one(seed).clone(), budget(one(seed))));
        // Six runs of 5 % noise can't do better than 95.2 % on the subjects with two arms.
        assert!(found.good >= 0.92 && found.tied >= SURE, "{kind}");
    }
}

#[test]
fn drift_and_disturbed_runs_cost_little() {
    let name = "22 evenly, 5 % drift, halving 60";
    let drifting = |draw: &mut Draw| Field { outliers: 0.0, ..messy(Field::even(draw, 22, SPREAD, NOISE), 60) };
    tally(name, RACES, |draw, _| (drifting(draw), halving(60))).expect_good(name);
    let name = "22 evenly, 3 % disturbed, halving 60";
    let disturbed = |draw: &mut Draw| Field { drift: 0.0, ..messy(Field::even(draw, 22, SPREAD, NOISE), 60) };
    tally(name, RACES, |draw, _| (disturbed(draw), halving(60))).expect_good(name);
}

#[test]
fn equal_placements_show_no_difference() {
    let equal = |draw: &mut Draw, arms: usize| Field::even(draw, arms, 0.0, NOISE);
    for (arms, budget, races) in [(3, 15, RACES), (8, 24, RACES), (22, 60, RACES), (22, 110, RACES / 4)] {
        let name = format!("{arms} equal, halving {budget}");
        tally(&name, races, |draw, _| (equal(draw, arms), halving(budget))).expect_nothing_shown(&name);
        let name = format!("{arms} equal, messy, halving {budget}");
        tally(&name, races, |draw, _| (messy(equal(draw, arms), budget as usize), halving(budget)))
            .expect_nothing_shown(&name);
    }
    let name = "22 equal, one the reference, halving 60";
    tally(name, RACES, |draw, _| (equal(draw, 22).against_first(), halving(60))).expect_nothing_shown(name);
    let name = "6 equal, messy, guarantee";
    tally(name, RACES / 4, |draw, _| (messy(equal(draw, 6), 100), GUARANTEE)).expect_nothing_shown(name);
    let name = "22 equal, guarantee";
    tally(name, RACES / 4, |draw, _| (equal(draw, 22), GUARANTEE)).expect_nothing_shown(name);
}

#[test]
fn a_guarantee_is_kept() {
    let even = |draw: &mut Draw| Field::even(draw, 22, SPREAD, NOISE);
    let name = "22 evenly, guarantee";
    tally(name, RACES / 4, |draw, _| (even(draw), GUARANTEE)).expect_good(name);
    let name = "22 evenly, messy, reference bimodal, guarantee";
    tally(name, RACES / 4, |draw, _| (bimodal_reference(messy(even(draw), 100)), GUARANTEE)).expect_good(name);
    // The hardest: all others just too slow to be named.
    let just_worse = |arms: usize| {
        let mut times_s = vec![1.021; arms];
        times_s[0] = 1.0;
        Field::of(times_s, NOISE)
    };
    for arms in [2, 8] {
        let name = format!("{arms}, all but one 2.1 % slower, guarantee");
        tally(&name, RACES, |_, _| (just_worse(arms), GUARANTEE)).expect_good(&name);
    }
}

#[test]
fn a_race_interrupted_anywhere_goes_on_as_if_it_had_not_been() {
    for rule in [halving(44), GUARANTEE] {
        let mut draw = Draw::new(7);
        let field = messy(Field::even(&mut draw, 12, SPREAD, NOISE), 44).against_first();
        let race = field.race(rule, 7);
        let runs = field.conduct(&race, &mut draw);
        let block_of = |runs: &[Run]| {
            let mut arms: Vec<usize> = runs.iter().map(|run| run.arm).collect();
            arms.sort_unstable();
            arms
        };
        for block in runs.chunk_by(|a, b| a.block == b.block) {
            let begin = runs.partition_point(|run| run.block < block[0].block);
            assert_eq!(race.next_block(&runs[..begin]), Some(block_of(block)));
            for end in begin + 1..begin + block.len() {
                assert_eq!(race.next_block(&runs[..end]), Some(block_of(block)), "an unfinished block is the next one");
            }
        }
        assert_eq!(race.next_block(&runs), None);
        assert_eq!(race.history(&runs).last().map(|past| &past.standings), Some(&race.standings(&runs)));
    }
}

#[test]
fn a_long_race_decides_at_looks_alone_and_spends_its_runs_to_the_last() {
    const RUNS: u32 = 2_003;
    let mut draw = Draw::new(5);
    // The third is dropped after many blocks; the first two are equal.
    let field = Field { times_s: vec![1.0, 1.0, 1.02], noise: 0.05, ..Field::even(&mut draw, 3, SPREAD, NOISE) };
    let rule = RaceRule::Guarantee { epsilon: 1e-6, delta: 0.05, max_runs: RUNS };
    let race = field.race(rule, 5);
    let runs = field.conduct(&race, &mut draw);
    assert!((RUNS - 2..=RUNS).contains(&(runs.len() as u32)), "{}", runs.len());
    let blocks: Vec<&[Run]> = runs.chunk_by(|a, b| a.block == b.block).collect();
    let arms = |block: &[Run]| block.iter().map(|run| run.arm).collect::<BTreeSet<_>>();
    // The last block takes what is left.
    let changes = (1..blocks.len() - 1).filter(|&block| arms(blocks[block]) != arms(blocks[block - 1]));
    let changes: Vec<usize> = changes.collect();
    assert!(changes.iter().any(|&blocks| blocks > LOOKS_AT_EACH), "{changes:?}");
    assert!(changes.iter().all(|&blocks| is_look(blocks)), "{changes:?}");
    let history: Vec<usize> = race.history(&runs).iter().map(|past| past.blocks).collect();
    // Of 668 blocks: every eighth look, which is 16 blocks apart up to 256, then 32 and 64, and the last block.
    let later =
        [144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 832, 896];
    let kept = (1..=LOOKS_AT_EACH).chain(later).filter(|count| *count < blocks.len()).chain([blocks.len()]);
    assert_eq!(history, kept.collect::<Vec<_>>());
}

#[test]
fn arms_that_are_kept_run_in_every_block() {
    let mut draw = Draw::new(3);
    let field = Field::even(&mut draw, 12, SPREAD, NOISE);
    let slowest = (0..12).max_by(|&a, &b| field.times_s[a].total_cmp(&field.times_s[b])).unwrap();
    let race = Race { kept: &[slowest], ..field.race(halving(40), 3) };
    let runs = field.conduct(&race, &mut draw);
    assert!(runs.chunk_by(|a, b| a.block == b.block).all(|block| block.iter().any(|run| run.arm == slowest)));
    let standing = race.standings(&runs).arms[slowest];
    assert!(standing.loss_low.unwrap() > 1.15 && standing.loss_high.unwrap() < 1.5, "{standing:?}");
}

#[test]
fn slow_runs_are_cut_off_and_failures_left_out() {
    let times_s = [1.0, 1.01, 3.0, 1.02];
    let race = Race { arms: 4, reference: &[], kept: &[], entries: &[], rule: halving(16), cut_off: 1.5, seed: 1 };
    assert_eq!(race.limit_s(&[], 0), None);
    let run = |block, arm: usize| Run { block, arm, outcome: Outcome::Time(times_s[arm]) };
    let mut runs = vec![run(0, 0), run(0, 1)];
    let limit_s = race.limit_s(&runs, 2).unwrap();
    assert!((1.5..1.5 * 1.12).contains(&limit_s), "{limit_s}");
    runs.push(Run { block: 0, arm: 2, outcome: Outcome::CutOff(limit_s) });
    runs.push(Run { block: 0, arm: 3, outcome: Outcome::Failed });
    assert_eq!(race.next_block(&runs), Some(vec![0, 1]));
    let standings = race.standings(&runs);
    let why = |arm: usize| standings.arms[arm].dropped.map(|dropped| (dropped.block, dropped.why));
    assert_eq!(
        [why(0), why(1), why(2), why(3)],
        [None, None, Some((0, DropReason::Outpaced)), Some((0, DropReason::Failed))]
    );
    assert_eq!((standings.arms[2].loss_high, standings.arms[3].loss), (None, None));
    assert!(!standings.difference_shown, "one run each shows nothing");
}

#[test]
fn a_budget_below_the_number_of_arms_runs_what_is_kept_and_the_references() {
    let reference = [Some(5); 12];
    let race =
        Race { arms: 12, reference: &reference, kept: &[9], entries: &[], rule: halving(4), cut_off: 1.5, seed: 1 };
    let first = race.next_block(&[]).unwrap();
    assert!(first.len() == 4 && first.contains(&5) && first.contains(&9), "{first:?}");
    let runs: Vec<Run> = first.iter().map(|&arm| Run { block: 0, arm, outcome: Outcome::Time(1.0) }).collect();
    assert_eq!(race.next_block(&runs), None);
}

/// Anything at all: unknown arms, times that are none, blocks out of order.
fn nonsense() -> impl Strategy<Value = Vec<Run>> {
    let time_s = prop_oneof![4 => 0.5..2.0_f64, 1 => prop::num::f64::ANY, 1 => Just(1.0)];
    let outcome = prop_oneof![
        6 => time_s.clone().prop_map(Outcome::Time),
        1 => time_s.prop_map(Outcome::CutOff),
        1 => Just(Outcome::Failed)
    ];
    let run = (0..8_u32, 0..7_usize, outcome).prop_map(|(block, arm, outcome)| Run { block, arm, outcome });
    (prop::collection::vec(run, 0..60), any::<bool>()).prop_map(|(mut runs, sorted)| {
        if sorted {
            runs.sort_by_key(|run| run.block);
        }
        runs
    })
}

fn rule() -> impl Strategy<Value = RaceRule> {
    prop_oneof![
        (0..80_u32).prop_map(|runs| RaceRule::Halving { runs }),
        (prop::num::f64::ANY, prop::num::f64::ANY, 0..80_u32)
            .prop_map(|(epsilon, delta, max_runs)| RaceRule::Guarantee { epsilon, delta, max_runs }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_runs_at_all_give_no_panic_and_no_nan(
        runs in nonsense(),
        arms in 0..6_usize,
        rule in rule(),
        reference in prop::collection::vec(prop::option::of(0..8_usize), 0..8),
        kept in prop::collection::vec(0..8_usize, 0..3),
        cut_off in prop::num::f64::ANY,
        seed: u64,
    ) {
        let race = Race { arms, reference: &reference, kept: &kept, entries: &[], rule, cut_off, seed };
        if let Some(next) = race.next_block(&runs) {
            prop_assert!(!next.is_empty() && next.is_sorted_by(|a, b| a < b) && next.iter().all(|&arm| arm < arms));
        }
        prop_assert!((0..8).filter_map(|arm| race.limit_s(&runs, arm)).all(|limit_s| limit_s.is_finite() && limit_s > 0.0));
        for PastStandings { standings, .. } in race.history(&runs) {
            prop_assert_eq!(standings.arms.len(), arms);
            prop_assert!(standings.best.is_none_or(|best| best < arms && standings.tied.contains(&best)));
            prop_assert!(standings.tied.is_sorted_by(|a, b| a < b));
            for standing in &standings.arms {
                for number in [standing.loss, standing.loss_low, standing.loss_high].into_iter().flatten() {
                    prop_assert!(!number.is_nan(), "{:?}", standing);
                }
            }
            prop_assert!(standings.gain.is_none_or(|gain| ![gain.ratio, gain.low, gain.high].iter().any(|x| x.is_nan())));
            prop_assert!(standings.smallest_detectable.is_none_or(|least| !least.is_nan()));
        }
    }
}
