//! Draws studies on machines that do something else as well, and holds the rule that calls them busy to its rates.
//!
//! `STUDIES=all cargo test -p stayput-stats --test disturbed -- --nocapture` prints the table of docs/design/disturbance.md. Without
//! `STUDIES`, two in five of the same studies are drawn.

#[path = "drawn/draw.rs"]
mod draw;

use draw::Draw;
use stayput_stats::{
    Claim, DEFAULT_MAX_BLOCKS, DEFAULT_MIN_BLOCKS, DEFAULT_WIDTH, NARROW_LOOKS, Pair, PairedRatio, Surroundings,
    block_permutation, claims, disturbances, is_settled, paired_ratio,
};

/// Studies of a scenario whose rates are far from their bounds, and of one whose are near.
const STUDIES: u64 = 300;
const MANY_STUDIES: u64 = 1_000;
/// How many of `studies` are drawn.
fn drawn(studies: u64) -> u64 {
    if draws_all() { studies } else { studies * 2 / 5 }
}

fn draws_all() -> bool {
    std::env::var_os("STUDIES").is_some()
}

/// Holds a rate to `bound`; of fewer studies than all, to what chance makes of that bound in 39 of 40 scenarios. Their mean is
/// held to the bound itself.
fn assert_at_most(rate: f64, bound: f64, studies: u64, scenario: &Scenario) {
    let chance = if draws_all() { 0.0 } else { 2.0 * (bound * (1.0 - bound) / studies as f64).sqrt() };
    let Scenario { name, max_blocks, .. } = scenario;
    assert!(rate <= bound + chance, "{name}, {max_blocks} blocks: {rate} of {studies} studies");
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// How often at most a study of equal placements may claim a difference without saying that the machine was busy.
const FALSE_CLAIMS: f64 = 0.05;
/// The same when nothing but the load average before the study tells of others: who comes soon after it began isn't seen.
const FALSE_CLAIMS_BY_LOAD: f64 = 0.10;
/// How often at most a difference that is there on a calm machine may be told as measured on a busy one.
const FALSE_FLAGS: f64 = 0.05;

const CPUS: usize = 8;
/// A reference and two treatments.
const TREATMENTS: usize = 3;
/// Seconds that one run takes on a calm machine.
const RUN_S: f64 = 1.0;
/// The time constant of the load average.
const MINUTE_S: f64 = 60.0;
/// Mean load average of an idle machine.
const IDLE: f64 = 0.05;

/// What a neighbour slows down.
#[derive(Clone, Copy, PartialEq)]
enum Hits {
    /// Every run: its threads run anywhere.
    All,
    /// Runs of one placement: it is bound to a CPU of that one.
    Placement(usize),
    /// Runs that use all CPUs.
    AllCpus,
}

/// When a neighbour is there.
#[derive(Clone, Copy)]
enum Presence {
    Never,
    /// It comes and goes; mean seconds of either.
    Alternating(f64),
    /// It comes once, or goes once.
    Step,
    Always,
    /// It slows runs more and more, or less and less.
    Ramp,
}

/// How the times of runs scatter.
#[derive(Clone, Copy)]
enum Noise {
    Normal(f64),
    /// One run in ten takes longer by a Pareto number with the exponent 1.5.
    Pareto(f64),
    /// Log times have this standard deviation and an exponential tail.
    Lognormal(f64),
}

#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    hits: fn(&mut Draw) -> Hits,
    presence: Presence,
    noise: Noise,
    /// How many times as long the reference takes.
    ratio: f64,
    max_blocks: u32,
}

/// A neighbour over the seconds of a study.
struct Neighbour {
    hits: Hits,
    /// How much longer runs take beside it.
    slowdown: f64,
    /// When it comes, goes, comes...; before the first it is there if `first`.
    changes_s: Vec<f64>,
    first: bool,
    /// Seconds over which it grows from nothing; falling when negative.
    ramp_s: Option<f64>,
}

impl Neighbour {
    fn draw(draw: &mut Draw, scenario: &Scenario) -> Self {
        let study_s = RUN_S * f64::from(scenario.max_blocks) * TREATMENTS as f64;
        let hits = (scenario.hits)(draw);
        // From a neighbour that wants a little of the caches to one that takes half a CPU.
        let slowdown = 0.07 * (1.0_f64 / 0.07).powf(draw.uniform());
        let first = draw.uniform() < 0.5;
        let mut neighbour = Self { hits, slowdown, changes_s: Vec::new(), first, ramp_s: None };
        match scenario.presence {
            Presence::Never => neighbour.slowdown = 0.0,
            Presence::Alternating(mean_s) => {
                let mut at_s = 0.0;
                while at_s < 3.0 * study_s {
                    at_s -= mean_s * (1.0 - draw.uniform()).ln();
                    neighbour.changes_s.push(at_s);
                }
            }
            Presence::Step => {
                // Runs that are slowed take longer, so a study lasts longer than it would.
                let share = draw.uniform();
                neighbour.changes_s.push(share * study_s);
            }
            Presence::Always => neighbour.first = true,
            Presence::Ramp => neighbour.ramp_s = Some(if first { study_s } else { -study_s }),
        }
        neighbour
    }

    fn is_there(&self, at_s: f64) -> bool {
        self.first ^ (self.changes_s.partition_point(|change_s| *change_s <= at_s) % 2 == 1)
    }

    /// How many times as long as on a calm machine a run takes at `at_s`.
    fn slowness(&self, at_s: f64, treatment: usize, threads: usize) -> f64 {
        let hit = match self.hits {
            Hits::All => true,
            Hits::Placement(placement) => placement == treatment,
            Hits::AllCpus => threads == CPUS,
        };
        let share = match self.ramp_s {
            Some(ramp_s) if ramp_s > 0.0 => (at_s / ramp_s).min(1.0),
            Some(ramp_s) => (1.0 + at_s / ramp_s).max(0.0),
            None => f64::from(u8::from(self.is_there(at_s))),
        };
        if hit { 1.0 + self.slowdown * share } else { 1.0 }
    }

    /// How long work of `work_s` takes from `at_s` on.
    fn run_s(&self, at_s: f64, work_s: f64, treatment: usize, threads: usize) -> f64 {
        let (mut now_s, mut left_s) = (at_s, work_s);
        loop {
            let slowness = self.slowness(now_s, treatment, threads);
            let next = self.changes_s[self.changes_s.partition_point(|change_s| *change_s <= now_s)..].first();
            match next {
                Some(&change_s) if change_s < now_s + left_s * slowness => {
                    left_s -= (change_s - now_s) / slowness;
                    now_s = change_s;
                }
                _ => return now_s + left_s * slowness - at_s,
            }
        }
    }

    /// CPUs that others keep busy on average over a study that takes `study_s`.
    fn busy_cpus(&self, draw: &mut Draw, presence: Presence, study_s: f64) -> f64 {
        const PARTS: usize = 1_000;
        let idle = -IDLE * (1.0 - draw.uniform()).ln();
        let there = (0..PARTS).filter(|&part| self.is_there(study_s * part as f64 / PARTS as f64)).count();
        idle + match presence {
            Presence::Never => 0.0,
            Presence::Ramp => 1.0,
            _ => there as f64 / PARTS as f64,
        }
    }

    /// The load average when the study begins, of a neighbour with one thread.
    fn load_average(&self, draw: &mut Draw, presence: Presence) -> f64 {
        let idle = -IDLE * (1.0 - draw.uniform()).ln();
        idle + match presence {
            Presence::Never => 0.0,
            // The past of an alternating neighbour is as its future, which is as good as drawn backwards.
            Presence::Alternating(mean_s) => {
                let (mut age_s, mut there, mut load) = (0.0_f64, self.first, 0.0);
                while age_s < 10.0 * MINUTE_S {
                    let until_s = age_s - mean_s * (1.0 - draw.uniform()).ln();
                    if there {
                        load += (-age_s / MINUTE_S).exp() - (-until_s / MINUTE_S).exp();
                    }
                    (age_s, there) = (until_s, !there);
                }
                load
            }
            Presence::Step | Presence::Always => f64::from(u8::from(self.first)),
            Presence::Ramp => f64::from(u8::from(!self.first)),
        }
    }
}

impl Noise {
    fn log(self, draw: &mut Draw) -> f64 {
        match self {
            Noise::Normal(sd) => sd * draw.normal(),
            Noise::Pareto(sd) => {
                let spike = if draw.uniform() < 0.1 { (1.0 - draw.uniform()).powf(-1.0 / 1.5) - 1.0 } else { 0.0 };
                sd * draw.normal() + spike.ln_1p()
            }
            Noise::Lognormal(sd) => sd * (draw.normal() - (1.0 - draw.uniform()).ln()),
        }
    }
}

/// A study that ended: for each treatment but the reference its pairs.
struct Study {
    pairs: Vec<Vec<Pair>>,
    surroundings: Surroundings,
}

/// How a claim is told.
struct Told {
    /// Without qualification.
    calm: bool,
    /// Without qualification when only the load average tells of others.
    calm_by_load: bool,
}

impl Study {
    fn draw(seed: u64, scenario: &Scenario) -> Self {
        let mut draw = Draw::new(seed);
        let threads = if draw.uniform() < 0.5 { CPUS / 2 } else { CPUS };
        let neighbour = Neighbour::draw(&mut draw, scenario);
        let load_average = neighbour.load_average(&mut draw, scenario.presence);
        let mut pairs: Vec<Vec<Pair>> = vec![Vec::new(); TREATMENTS - 1];
        let mut now_s = 0.0;
        let mut ends_s = Vec::new();
        for block in 0..scenario.max_blocks {
            let mut times_s = [0.0; TREATMENTS];
            for treatment in block_permutation(seed, block, 0, TREATMENTS) {
                let ratio = if treatment == 0 { scenario.ratio } else { 1.0 };
                let work_s = RUN_S * ratio * scenario.noise.log(&mut draw).exp();
                times_s[treatment] = neighbour.run_s(now_s, work_s, treatment, threads);
                now_s += times_s[treatment];
            }
            for (pairs, &treatment_s) in pairs.iter_mut().zip(&times_s[1..]) {
                pairs.push(Pair { reference_s: times_s[0], treatment_s });
            }
            ends_s.push(now_s);
        }
        // The study ends when every comparison is settled.
        let blocks = pairs.iter().map(|pairs| stop(pairs)).max().unwrap_or(0);
        pairs.iter_mut().for_each(|pairs| pairs.truncate(blocks));
        let busy = neighbour.busy_cpus(&mut draw, scenario.presence, ends_s[blocks - 1]);
        let surroundings = Surroundings {
            usable_cpus: CPUS,
            threads,
            load_average: Some(load_average),
            others_busy_cpus: Some(busy),
            steal_share: Some(0.0),
        };
        Self { pairs, surroundings }
    }

    /// How each of its claims is told.
    fn told(&self) -> Vec<Told> {
        let ratios: Vec<PairedRatio> = self.pairs.iter().map(|pairs| interval(pairs)).collect();
        let claims = claims(&ratios);
        (self.pairs.iter().zip(ratios).zip(claims))
            .filter(|(_, claim)| *claim != Claim::NoneShown)
            .map(|((pairs, ratio), _)| {
                let calm = |surroundings| disturbances(pairs, ratio.ratio(), &surroundings).is_empty();
                Told {
                    calm: calm(self.surroundings),
                    calm_by_load: calm(Surroundings { others_busy_cpus: None, ..self.surroundings }),
                }
            })
            .collect()
    }
}

fn interval(pairs: &[Pair]) -> PairedRatio {
    paired_ratio(pairs, 1).expect("drawn times are positive")
}

/// The block after which the stop rule ends a comparison of these pairs.
fn stop(pairs: &[Pair]) -> usize {
    let narrow = |look: usize| interval(&pairs[..look]).relative_width() < DEFAULT_WIDTH;
    let mut blocks = DEFAULT_MIN_BLOCKS as usize;
    while blocks < pairs.len() {
        // After a wide look the rule can't be met before as many narrow ones; asking it at every block takes minutes.
        match (blocks - NARROW_LOOKS + 1..=blocks).rev().find(|&look| !narrow(look)) {
            Some(wide) => blocks = wide + NARROW_LOOKS,
            None => {
                assert!(is_settled(&pairs[..blocks], DEFAULT_WIDTH, DEFAULT_MIN_BLOCKS as usize, 1));
                return blocks;
            }
        }
    }
    pairs.len()
}

/// Shares of the studies of one scenario.
struct Tally {
    /// Claim anything.
    claimed: f64,
    /// Claim anything without qualification.
    unqualified: f64,
    /// Claim anything without qualification when only the load average tells of others.
    unqualified_by_load: f64,
    /// Say of a claim that the machine was busy.
    busy: f64,
}

fn tally(studies: u64, scenario: &Scenario) -> Tally {
    let all: Vec<Vec<Told>> = (0..studies).map(|seed| Study::draw(seed, scenario).told()).collect();
    let share =
        |holds: fn(&Told) -> bool| all.iter().filter(|told| told.iter().any(holds)).count() as f64 / studies as f64;
    let tally = Tally {
        claimed: share(|_| true),
        unqualified: share(|told| told.calm),
        unqualified_by_load: share(|told| told.calm_by_load),
        busy: share(|told| !told.calm),
    };
    let (Noise::Normal(sd) | Noise::Pareto(sd) | Noise::Lognormal(sd)) = scenario.noise;
    let percents = [tally.claimed, tally.unqualified, tally.unqualified_by_load, tally.busy].map(|share| 100.0 * share);
    println!(
        "{:52} {:4.1} % {:3} {:6.1} {:6.1} {:6.1} {:6.1}",
        scenario.name,
        100.0 * sd,
        scenario.max_blocks,
        percents[0],
        percents[1],
        percents[2],
        percents[3]
    );
    tally
}

fn heading(studies: u64, what: &str) {
    println!(
        "{what}: % of {studies} studies; columns: noise, most blocks, claim, without saying busy, likewise by load, busy"
    );
}

/// Noise and most blocks: a study that the stop rule ends, one that it doesn't, and one that ended early.
const SIZES: [(f64, u32); 3] = [(0.005, DEFAULT_MAX_BLOCKS), (0.02, DEFAULT_MAX_BLOCKS), (0.02, 12)];

const ALL: fn(&mut Draw) -> Hits = |_| Hits::All;
const ONE: fn(&mut Draw) -> Hits = |draw| Hits::Placement(draw.below(TREATMENTS));

#[test]
fn what_hits_every_placement_alike_makes_no_claims() {
    let studies = drawn(MANY_STUDIES);
    let mut claimed = Vec::new();
    heading(studies, "equal placements, all disturbed alike");
    for (sd, max_blocks) in SIZES {
        for (name, hits, presence, noise) in [
            ("calm", ALL, Presence::Never, Noise::Normal(sd)),
            ("neighbour comes and goes, 2 s", ALL, Presence::Alternating(2.0), Noise::Normal(sd)),
            ("neighbour comes and goes, 20 s", ALL, Presence::Alternating(20.0), Noise::Normal(sd)),
            ("neighbour comes or goes once", ALL, Presence::Step, Noise::Normal(sd)),
            ("neighbour wants ever more, or less", ALL, Presence::Ramp, Noise::Normal(sd)),
            ("one run in ten slow, Pareto 1.5", ALL, Presence::Never, Noise::Pareto(sd)),
            ("log times with an exponential tail", ALL, Presence::Never, Noise::Lognormal(10.0 * sd)),
            ("neighbour on all CPUs, runs of all CPUs", |_| Hits::AllCpus, Presence::Always, Noise::Normal(sd)),
        ] {
            let scenario = Scenario { name, hits, presence, noise, ratio: 1.0, max_blocks };
            let tally = tally(studies, &scenario);
            assert_at_most(tally.claimed, FALSE_CLAIMS, studies, &scenario);
            claimed.push(tally.claimed);
        }
    }
    assert!(mean(&claimed) <= FALSE_CLAIMS, "{claimed:?}");
}

#[test]
fn what_hits_one_placement_is_not_claimed_without_saying_busy() {
    let studies = drawn(STUDIES);
    let mut unqualified = Vec::new();
    heading(studies, "equal placements, one disturbed");
    for (sd, max_blocks) in SIZES {
        for (name, presence) in [
            ("neighbour comes and goes, 2 s", Presence::Alternating(2.0)),
            ("neighbour comes and goes, 20 s", Presence::Alternating(20.0)),
            ("neighbour comes and goes, 60 s", Presence::Alternating(60.0)),
            ("neighbour comes or goes once", Presence::Step),
            ("neighbour wants ever more, or less", Presence::Ramp),
            ("neighbour is there all the time", Presence::Always),
        ] {
            let scenario = Scenario { name, hits: ONE, presence, noise: Noise::Normal(sd), ratio: 1.0, max_blocks };
            let tally = tally(studies, &scenario);
            assert_at_most(tally.unqualified, FALSE_CLAIMS, studies, &scenario);
            assert!(tally.claimed > FALSE_CLAIMS, "{name}: pairing alone would do");
            assert_at_most(tally.unqualified_by_load, FALSE_CLAIMS_BY_LOAD, studies, &scenario);
            unqualified.push(tally.unqualified);
        }
    }
    assert!(mean(&unqualified) <= FALSE_CLAIMS, "{unqualified:?}");
}

#[test]
fn a_difference_on_a_calm_machine_is_told_plainly() {
    let studies = drawn(STUDIES);
    let mut flagged = Vec::new();
    heading(studies, "5 % faster, calm");
    for (sd, max_blocks) in SIZES {
        for (name, noise) in [
            ("calm", Noise::Normal(sd)),
            ("calm, three times the noise", Noise::Normal(3.0 * sd)),
            ("calm, one run in ten slow", Noise::Pareto(sd)),
        ] {
            let scenario = Scenario { name, hits: ALL, presence: Presence::Never, noise, ratio: 1.05, max_blocks };
            let tally = tally(studies, &scenario);
            assert_at_most(tally.busy, FALSE_FLAGS, studies, &scenario);
            assert!(tally.claimed > 0.15, "{name}: nothing to tell");
            flagged.push(tally.busy);
        }
    }
    assert!(mean(&flagged) <= FALSE_FLAGS, "{flagged:?}");
}
