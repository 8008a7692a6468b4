//! Races whose truth is known: what the arms take, how noisy they are, and a loop that runs them.

mod draw;

pub use draw::Draw;
use serde::Deserialize;
use stayput_stats::{Outcome, Race, RaceRule, RaceUnderWay, Run, block_permutation};
use std::collections::BTreeMap;

/// A run within 2 % of the best is as good as the best.
pub const GOOD: f64 = 1.02;

impl Draw {
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// What is raced.
#[derive(Clone, Debug)]
pub struct Field {
    /// Typical time of each arm, in seconds.
    pub times_s: Vec<f64>,
    /// The reference of each arm.
    pub reference: Vec<Option<usize>>,
    /// Standard deviation of log times.
    pub noise: f64,
    /// How much slower the machine is at the end of a race of `drift_runs` runs.
    pub drift: f64,
    pub drift_runs: usize,
    /// How often a run is disturbed, which makes it 1.5 times slower.
    pub outliers: f64,
    /// An arm of which three runs in ten take 1.5 times longer.
    pub bimodal: Option<usize>,
}

impl Field {
    pub fn of(times_s: Vec<f64>, noise: f64) -> Self {
        let reference = vec![None; times_s.len()];
        Self { times_s, reference, noise, drift: 0.0, drift_runs: 1, outliers: 0.0, bimodal: None }
    }

    /// `arms` spread evenly over `spread` (0.3 = the slowest takes 30 % longer), shuffled.
    pub fn even(draw: &mut Draw, arms: usize, spread: f64, noise: f64) -> Self {
        let mut times_s: Vec<f64> = (0..arms).map(|arm| 1.0 + spread * arm as f64 / (arms - 1) as f64).collect();
        draw.shuffle(&mut times_s);
        Self::of(times_s, noise)
    }

    /// `arms` spread uniformly at random over `spread`.
    pub fn uniform(draw: &mut Draw, arms: usize, spread: f64, noise: f64) -> Self {
        Self::of((0..arms).map(|_| 1.0 + spread * draw.uniform()).collect(), noise)
    }

    /// The same with the first arm as everybody's reference.
    pub fn against_first(mut self) -> Self {
        self.reference = vec![Some(0); self.times_s.len()];
        self
    }

    pub fn best_s(&self) -> f64 {
        self.times_s.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Whether `arm` is within 2 % of the best.
    pub fn is_good(&self, arm: Option<usize>) -> bool {
        arm.is_some_and(|arm| self.times_s[arm] <= GOOD * self.best_s())
    }

    /// The time of one run, the `position`-th of its race.
    pub fn run_s(&self, draw: &mut Draw, arm: usize, position: usize) -> f64 {
        let mut log_s = self.times_s[arm].ln() + self.noise * draw.normal();
        log_s += self.drift * position as f64 / self.drift_runs as f64;
        let disturbed = draw.uniform() < self.outliers;
        let slow_mode = draw.uniform() < 0.3 && self.bimodal == Some(arm);
        if disturbed || slow_mode {
            log_s += 1.5_f64.ln();
        }
        log_s.exp()
    }

    pub fn race(&self, rule: RaceRule, seed: u64) -> Race<'_> {
        Race { arms: self.times_s.len(), reference: &self.reference, kept: &[], entries: &[], rule, cut_off: 1.5, seed }
    }

    /// Runs `race` to its end as an engine does: blocks in random order, runs that take too long cut off.
    pub fn conduct(&self, race: &Race, draw: &mut Draw) -> Vec<Run> {
        let (mut runs, mut fastest_s): (Vec<Run>, f64) = (Vec::new(), f64::INFINITY);
        let mut under_way = RaceUnderWay::new(race);
        while let Some(arms) = under_way.next_block(race) {
            let block = runs.last().map_or(0, |run| run.block + 1);
            for position in block_permutation(race.seed, block, 0, arms.len()) {
                let arm = arms[position];
                let time_s = self.run_s(draw, arm, runs.len());
                fastest_s = fastest_s.min(time_s);
                // The limit is never below this; asking for it at every run would take most of the time.
                let may_be_cut = time_s > race.cut_off * fastest_s;
                let outcome = match may_be_cut.then(|| under_way.limit_s(race, arm)).flatten() {
                    Some(limit_s) if time_s > limit_s => Outcome::CutOff(limit_s),
                    _ => Outcome::Time(time_s),
                };
                runs.push(Run { block, arm, outcome });
                under_way.add(race, runs[runs.len() - 1]);
            }
        }
        runs
    }
}

/// A study of a paper, as far as a race needs it.
#[derive(Deserialize)]
struct Paper {
    table: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    class: String,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    benchmark: String,
    placement: String,
    quantity: String,
    printed: String,
}

impl Row {
    fn times_s(&self) -> Vec<f64> {
        self.printed.split_whitespace().map(|number| number.parse().expect("a printed time")).collect()
    }
}

/// The fields that the papers' tables are: for each benchmark and class one for each thread count, whose arms are the
/// placements, and one of all thread counts together. With each what its class of subjects is called.
pub fn of_papers() -> Vec<(&'static str, Field)> {
    const PAPERS: [(&str, &str, f64, &str); 2] = [
        ("2016: 3 arms", "2016: 12 arms", 0.019, include_str!("../../../../papers/printed/pires-2016.toml")),
        ("2017: 2 arms", "2017: 14 arms", 0.05, include_str!("../../../../papers/printed/pires-2017.toml")),
    ];
    let mut fields = Vec::new();
    for (single, whole, noise, text) in PAPERS {
        let paper: Paper = toml::from_str(text).expect("papers/printed holds tables");
        let mut subjects: BTreeMap<(String, String), Vec<Row>> = BTreeMap::new();
        for table in paper.table {
            for row in table.rows.into_iter().filter(|row| row.quantity == "time") {
                subjects.entry((row.benchmark.clone(), table.class.clone())).or_default().push(row);
            }
        }
        for rows in subjects.into_values() {
            let unbound = rows.iter().position(|row| row.placement == "unbound").expect("a row for unbound");
            let (mut all, mut references) = (Vec::new(), Vec::new());
            for column in 0..rows[0].times_s().len() {
                let times_s: Vec<f64> = rows.iter().map(|row| row.times_s()[column]).collect();
                let mut field = Field::of(times_s.clone(), noise);
                field.reference = vec![Some(unbound); times_s.len()];
                references.extend(vec![Some(all.len() + unbound); times_s.len()]);
                all.extend(times_s);
                fields.push((single, field));
            }
            fields.push((whole, Field { reference: references, ..Field::of(all, noise) }));
        }
    }
    fields
}
