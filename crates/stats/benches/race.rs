//! What a race costs and how often it is won, beside the ways that one would think of first.
//!
//! `make bench`, or `cargo bench -p stayput-stats`. Everything is drawn; the seeds of the races are 0, 1, 2...

#[path = "../tests/drawn/mod.rs"]
mod drawn;

use drawn::{Draw, Field, of_papers};
use stayput_stats::RaceRule;

/// Races of each line, and of those with a guarantee, which are longer.
const RACES: u64 = 1_000;
const GUARANTEED_RACES: u64 = 200;

/// What may be lost, and how surely not.
const EPSILON: f64 = 0.02;
const DELTA: f64 = 0.05;

/// The textbook's methods are stopped here: with equal arms they would go on for long.
const MOST_RUNS: usize = 50_000;

/// What is raced, by seed, and the budgets of halving; without any, three runs an arm.
type Scenario<'a> = (&'a str, &'a [u32], &'a dyn Fn(u64) -> Field);

fn main() {
    println!("won: the arm named is within 2 % of the best; textbook methods know the noise, ours estimate it");
    println!("seeds from 0 in each line; runs are medians\n");
    let papers = of_papers();
    let scenarios: [Scenario; 7] = [
        ("22 evenly over 30 %, 2 % noise", &[30, 37, 60], &|seed| Field::even(&mut Draw::new(seed), 22, 0.3, 0.02)),
        ("22 at random over 30 %", &[30, 37, 60], &|seed| Field::uniform(&mut Draw::new(seed), 22, 0.3, 0.02)),
        ("22 evenly, one the reference", &[37, 44, 60], &|seed| {
            Field::even(&mut Draw::new(seed), 22, 0.3, 0.02).against_first()
        }),
        ("22 evenly, 5 % drift, 3 % disturbed", &[37, 60], &|seed| {
            let field = Field::even(&mut Draw::new(seed), 22, 0.3, 0.02);
            Field { drift: 0.05, drift_runs: 60, outliers: 0.03, ..field }
        }),
        ("200 evenly over 30 %", &[260, 333], &|seed| Field::even(&mut Draw::new(seed), 200, 0.3, 0.02)),
        ("papers, 2 or 3 placements", &[], &|seed| paper(&papers, seed, |arms| arms <= 3)),
        ("papers, 12 or 14 across threads", &[], &|seed| paper(&papers, seed, |arms| arms > 3)),
    ];
    println!("{:38}{:34}{:>6}{:>7}{:>9}", "arms", "method", "races", "runs", "won");
    for (name, budgets, field) in scenarios {
        let guaranteed_races = if field(0).times_s.len() < 100 { GUARANTEED_RACES } else { GUARANTEED_RACES / 10 };
        for &runs in budgets {
            ours(name, &format!("halving, at most {runs}"), RACES, field, |_| RaceRule::Halving { runs });
        }
        if budgets.is_empty() {
            let most = |field: &Field| RaceRule::Halving { runs: 3 * field.times_s.len() as u32 };
            ours(name, "halving, at most 3 runs an arm", RACES, field, most);
        }
        let guarantee = RaceRule::Guarantee { epsilon: EPSILON, delta: DELTA, max_runs: 5_000 };
        ours(name, "guarantee (2 %, 5 %)", guaranteed_races, field, |_| guarantee);
        textbook(name, "five repeats of each", RACES, field, five_repeats);
        textbook(name, "successive elimination", guaranteed_races, field, successive_elimination);
        textbook(name, "LUCB", guaranteed_races, field, lucb);
        println!();
    }
}

/// The fields of the papers of so many arms, in turn.
fn paper(papers: &[(&str, Field)], seed: u64, of_size: fn(usize) -> bool) -> Field {
    let ours: Vec<&Field> =
        papers.iter().map(|(_, field)| field).filter(|field| of_size(field.times_s.len())).collect();
    ours[seed as usize % ours.len()].clone()
}

fn ours(name: &str, method: &str, races: u64, field: &dyn Fn(u64) -> Field, rule: impl Fn(&Field) -> RaceRule) {
    let race = |seed: u64| {
        let field = field(seed);
        let race = field.race(rule(&field), seed);
        let runs = field.conduct(&race, &mut Draw::new(seed + RACES));
        (field.is_good(race.standings(&runs).best), runs.len())
    };
    print_line(name, method, (0..races).map(race).collect());
}

fn textbook(
    name: &str,
    method: &str,
    races: u64,
    field: &dyn Fn(u64) -> Field,
    conduct: fn(&Field, &mut Runs) -> usize,
) {
    let race = |seed: u64| {
        let field = field(seed);
        let mut runs = Runs { draw: Draw::new(seed + RACES), made: 0, sums: vec![(0.0, 0.0); field.times_s.len()] };
        let named = conduct(&field, &mut runs);
        (field.is_good(Some(named)), runs.made)
    };
    print_line(name, method, (0..races).map(race).collect());
}

fn print_line(name: &str, method: &str, mut races: Vec<(bool, usize)>) {
    races.sort_unstable_by_key(|(_, runs)| *runs);
    let won = races.iter().filter(|(good, _)| *good).count() as f64 / races.len() as f64;
    println!("{name:38}{method:34}{:>6}{:>7}{:>7.1} %", races.len(), races[races.len() / 2].1, 100.0 * won);
}

/// The runs of a textbook race.
struct Runs {
    draw: Draw,
    made: usize,
    /// Sum and number of each arm's log times.
    sums: Vec<(f64, f64)>,
}

impl Runs {
    fn run(&mut self, field: &Field, arm: usize) {
        self.sums[arm].0 += field.run_s(&mut self.draw, arm, self.made).ln();
        self.sums[arm].1 += 1.0;
        self.made += 1;
    }

    fn mean(&self, arm: usize) -> f64 {
        self.sums[arm].0 / self.sums[arm].1
    }

    fn best_of(&self, arms: &[usize]) -> usize {
        *arms.iter().min_by(|&&a, &&b| self.mean(a).total_cmp(&self.mean(b))).expect("there are arms")
    }
}

fn five_repeats(field: &Field, runs: &mut Runs) -> usize {
    let arms: Vec<usize> = (0..field.times_s.len()).collect();
    for _ in 0..5 {
        arms.iter().for_each(|&arm| runs.run(field, arm));
    }
    runs.best_of(&arms)
}

/// Even-Dar, Mannor and Mansour, "Action elimination and stopping conditions for the multi-armed bandit", JMLR 7, 2006,
/// with the bound of normal noise and an end once nothing is left to lose.
fn successive_elimination(field: &Field, runs: &mut Runs) -> usize {
    let mut active: Vec<usize> = (0..field.times_s.len()).collect();
    let all = active.len() as f64;
    for round in 1.. {
        active.iter().for_each(|&arm| runs.run(field, arm));
        let t = f64::from(round);
        let radius = field.noise * (2.0 * (4.0 * all * t * t / DELTA).ln() / t).sqrt();
        let best = runs.best_of(&active);
        active.retain(|&arm| runs.mean(arm) - runs.mean(best) < 2.0 * radius);
        if active.len() == 1 || 2.0 * radius <= EPSILON.ln_1p() || runs.made >= MOST_RUNS {
            return best;
        }
    }
    unreachable!("the radius goes to 0")
}

/// Kalyanakrishnan, Tewari, Auer and Stone, ICML 2012, with the bound of normal noise.
fn lucb(field: &Field, runs: &mut Runs) -> usize {
    let arms: Vec<usize> = (0..field.times_s.len()).collect();
    arms.iter().for_each(|&arm| runs.run(field, arm));
    loop {
        let t = runs.made as f64;
        let exploration = 2.0 * (1.25 * arms.len() as f64 * t.powi(4) / DELTA).ln();
        let radius = |runs: &Runs, arm: usize| field.noise * (exploration / runs.sums[arm].1).sqrt();
        let best = runs.best_of(&arms);
        let lower = |arm: usize| runs.mean(arm) - radius(runs, arm);
        let rivals = arms.iter().copied().filter(|&arm| arm != best);
        let challenger = rivals.min_by(|&a, &b| lower(a).total_cmp(&lower(b))).expect("there are two arms");
        let doubt = runs.mean(best) + radius(runs, best) - lower(challenger);
        if doubt <= EPSILON.ln_1p() || runs.made >= MOST_RUNS {
            return best;
        }
        runs.run(field, best);
        runs.run(field, challenger);
    }
}
