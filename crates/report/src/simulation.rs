//! A simulation told in every form: what each policy does to misses, time and fairness.
//!
//! All forms say the same things in the same order: the answer with its doubt, the table of policies against the reference (or of
//! a sweep's points), what was simulated with which numbers, and what the model leaves out.

mod csv;
mod json;
mod sheet;
pub(crate) mod space;

pub(crate) use self::csv::{csv, samples_csv};
pub(crate) use json::{Contract, put};
pub(crate) use sheet::Sheet;

use crate::glossary::{Entry, SPACE_SHARING, TIME_SHARING};
use crate::number;
use crate::sentences;
use crate::table::{Cell, Row, Table};
use crate::words::{count, plain};
use ::simulation::metrics::{COMPLETION, ENDED, MAKESPAN, MEAN_COMPLETION, MIGRATIONS, MISSES, SLICE_MEDIAN};
use ::simulation::{
    Estimated, PointResult, PolicyResult, Sharing, Simulation, SimulationAnalysis, SimulationPlan, SweepPoint,
};
use machine::Machine;
use serde::Serialize;
use serde_json::Value;
use stats::{By, Metric};
use study::{Claim, HostFacts, Record};

/// One simulation as the report sees it.
pub(crate) struct SimulationView<'a> {
    /// What happened.
    pub record: &'a Record<SimulationPlan>,
    /// What it means.
    pub analysis: &'a SimulationAnalysis,
    /// The simulation, at the first point of its sweep.
    pub simulation: &'a Simulation,
    /// The machine, where the record's topology can be read.
    pub machine: Option<Machine>,
}

/// A quantity that policies are compared by.
struct Quantity {
    metric: Metric,
    label: String,
    write: fn(f64) -> String,
    told: Told,
}

/// What is told of a quantity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Its value, and below it by how much that differs from the reference's.
    Change,
    /// Its value with the interval.
    Doubt,
    /// Its value, as a part of the quantity above; not where it is 0 under every policy.
    Part,
}

/// Why a dispatch interval ended: as metrics call it, and in words.
pub(crate) const ENDS: [(&str, &str); 8] = [
    ("quantum", "quantum"),
    ("semaphore", "semaphore"),
    ("synchronization", "synchronisation"),
    ("system_call", "system call"),
    ("tlb_fault", "TLB fault"),
    ("other", "other cause"),
    ("exit", "exit"),
    ("preempted", "preempted"),
];

/// How far a process moved: as metrics call it, and in words.
const DISTANCES: [(&str, &str); 7] = [
    ("core", "within a core"),
    ("l2", "within an L2 or module"),
    ("l3", "within an L3"),
    ("node", "within a node"),
    ("package", "within a package"),
    ("group", "within a group of packages"),
    ("machine", "between packages"),
];

/// The metric of the share of dispatch intervals that ended so.
pub(crate) fn end_metric(end: &'static str) -> Metric {
    ENDED.by(By::End(end.into()))
}

/// What the model of time sharing leaves out, in sentences.
const LIMITS: [&str; 6] = [
    "Caches are followed as expected numbers of lines, not line by line: a program whose arrays collide systematically isn't one of these.",
    "A process reuses one set of lines at one rate; phases with other sets of data aren't modelled.",
    "Blocking times are drawn; nobody waits for a disk that another process keeps busy.",
    "The kernel itself displaces nothing, and memory stays where it is.",
    "Intervals tell how far other draws of the same workload would differ, not how far the workload is from a real one.",
    "The built-in applications are what the cache-affinity report prints of them, with choices where it prints nothing (crates/sim/workloads/choices.toml).",
];

/// Makes quantities of which so much is told.
fn quantity(told: Told) -> impl Fn(Metric, &str, fn(f64) -> String) -> Quantity {
    move |metric, label, write| Quantity { metric, label: label.into(), write, told }
}

impl<'a> SimulationView<'a> {
    /// Looks at `record` through `analysis`.
    pub(crate) fn new(record: &'a Record<SimulationPlan>, analysis: &'a SimulationAnalysis) -> Self {
        let machine = serde_json::from_value(record.machine.clone()).ok();
        // Plans without a simulation are refused when they are made and when they are read.
        let simulation = &record.plan.points[0].simulation;
        Self { record, analysis, simulation, machine }
    }

    /// The simulation as the forms that are text alone say it.
    pub(crate) fn sheet(&self) -> Sheet<'a> {
        Sheet {
            verdicts: sentences::simulation_verdicts(self.analysis),
            warnings: &self.analysis.warnings,
            table: self.table(),
            key: self.key(),
            setting: self.setting(),
            jobs: self.jobs(),
            parameters: self.parameters(),
            limits_of: "The model's limits",
            limits: self.limits(),
        }
    }

    /// What was seen at each point of the sweep, or at the only one.
    pub(crate) fn points(&self) -> &'a [PointResult] {
        &self.analysis.points
    }

    /// What was simulated at a point.
    fn simulation_at(&self, point: &PointResult) -> Option<&'a Simulation> {
        let found = self.record.plan.points.iter().find(|planned| planned.name == point.subject);
        found.map(|planned| &planned.simulation)
    }

    /// The parameter that a sweep goes through; none without one.
    pub(crate) fn swept(&self) -> Option<&'a str> {
        let point = self.simulation.point.as_ref()?;
        Some(&point.parameter)
    }

    /// The name of the workload.
    pub(crate) fn workload(&self) -> String {
        match self.points() {
            [first, .., last] if first.point.is_none() && last.point.is_none() => {
                format!("{} mixes", self.points().len())
            }
            _ => plain(self.simulation.sharing.name()),
        }
    }

    /// Whether jobs hold the CPUs.
    pub(crate) fn shares_space(&self) -> bool {
        matches!(self.simulation.sharing, Sharing::Space { .. })
    }

    /// Whether there is one point for each of several mixes.
    pub(crate) fn compares_mixes(&self) -> bool {
        self.points().len() > 1 && self.swept().is_none()
    }

    /// What stands below every table.
    pub(crate) fn key(&self) -> String {
        let means = means(self.record.plan.replicates);
        let kernel = self.kernel().map_or_else(String::new, |release| format!(" eevdf: {}.", own_scheduler(release)));
        format!("{means}. Change: against {}, from replicates with the same draws.{kernel}", self.reference())
    }

    /// The policy that others are compared with, whether it is simulated or not.
    pub(crate) fn reference(&self) -> String {
        plain(self.record.plan.reference().unwrap_or_default())
    }

    /// The same with whose scheduler it is, where it is a kernel's.
    pub(crate) fn reference_in_words(&self) -> String {
        let policy = self.reference();
        let kernel = self.record.plan.reference_kernel();
        kernel.map_or_else(|| policy.clone(), |release| format!("{policy}, {}", own_scheduler(release)))
    }

    /// The kernel whose own scheduler is among the policies.
    pub(crate) fn kernel(&self) -> Option<sim::Release> {
        let is_there = self.record.plan.policies.iter().any(|policy| is_kernels(policy));
        self.simulation.sharing.kernel().filter(|_| is_there)
    }

    /// What the words of its table mean.
    pub(crate) fn glossary(&self) -> impl Iterator<Item = Entry> + use<> {
        let all = if self.shares_space() { SPACE_SHARING.as_slice() } else { &TIME_SHARING };
        let (is_swept, has_intervals) = (self.swept().is_some(), self.record.plan.replicates > 1);
        let is_used = move |entry: &&Entry| match entry.0 {
            "point" | "future" => is_swept,
            "95 % interval" => has_intervals,
            _ => true,
        };
        all.iter().filter(is_used).copied()
    }

    /// What the model leaves out, in sentences.
    pub(crate) fn limits(&self) -> Vec<String> {
        if self.shares_space() {
            return space::LIMITS.map(str::to_owned).to_vec();
        }
        LIMITS.map(str::to_owned).into_iter().chain(self.kernel().map(kernel_in_words)).collect()
    }

    /// The names of the jobs that are told apart.
    pub(crate) fn job_names(&self) -> Vec<&'a str> {
        self.simulation.sharing.jobs()
    }

    /// The names of the policies, the reference first.
    pub(crate) fn policies(&self) -> Vec<&'a str> {
        self.record.plan.policies.iter().map(String::as_str).collect()
    }

    /// The table: one row a quantity, or one a point of the sweep.
    pub(crate) fn table(&self) -> Table {
        match (self.points(), self.swept()) {
            ([point], _) => self.of_policies(point),
            (points, swept) if self.shares_space() => space::of_points(points, swept),
            (points, swept) => of_points(points, swept.unwrap_or_default()),
        }
    }

    fn of_policies(&self, point: &PointResult) -> Table {
        let mut table =
            Table::of_policies(String::new(), point.policies.iter().map(|result| plain(&result.policy)).collect());
        for quantity in self.quantities() {
            let values = || point.policies.iter().filter_map(|result| result.value(&quantity.metric));
            if values().next().is_none() || quantity.told == Told::Part && values().all(|value| value == 0.0) {
                continue;
            }
            table.push(plain(&quantity.label), point.policies.iter().map(|result| quantity.value(result)).collect());
            if quantity.told == Told::Change && point.policies.iter().any(|result| is_compared(point, result)) {
                let change =
                    |result| if is_compared(point, result) { quantity.change(result) } else { Cell::default() };
                table.push("  change".into(), point.policies.iter().map(change).collect());
            }
        }
        table
    }

    fn quantities(&self) -> Vec<Quantity> {
        if self.shares_space() {
            return space::quantities(&self.job_names());
        }
        let (change, doubt, part) = (quantity(Told::Change), quantity(Told::Doubt), quantity(Told::Part));
        let mut all = vec![
            change(MISSES, "misses, thousands", thousands),
            part(MISSES.by(By::Cause("reload".into())), "  reload", thousands),
            part(MISSES.by(By::Cause("steady".into())), "  steady", thousands),
            part(MISSES.by(By::Cause("invalidation".into())), "  invalidation", thousands),
            change(MAKESPAN, "execution time, s", seconds),
        ];
        let jobs = self.job_names();
        if jobs.len() > 1 {
            all.push(change(MEAN_COMPLETION, "mean job completion, s", seconds));
            let of_job = |job: &&str| part(COMPLETION.of_job(job), &format!("  {job}"), seconds);
            all.extend(jobs.iter().map(of_job));
        }
        all.extend([
            doubt(Metric::from_name("process_time_mean_ms"), "mean process completion, s", seconds),
            doubt(Metric::from_name("stalled_fraction"), "CPU time lost to misses, %", percent),
            doubt(Metric::from_name("idle_fraction"), "idle CPU time, %", percent),
            doubt(SLICE_MEDIAN, "median effective slice, ms", number::seconds),
            doubt(Metric::from_name("effective_slice_mean_ms"), "mean effective slice, ms", number::seconds),
            doubt(Metric::from_name("dispatch_interval_mean_ms"), "mean dispatch interval, ms", number::seconds),
        ]);
        all.extend(ENDS.map(|(end, words)| part(end_metric(end), &format!("  ended by {words}, %"), percent)));
        all.extend([
            doubt(Metric::from_name("dispatches"), "dispatches", number::seconds),
            doubt(MIGRATIONS, "migrations", number::seconds),
        ]);
        all.extend(DISTANCES.map(|(level, words)| {
            part(MIGRATIONS.by(By::Distance(level.into())), &format!("  {words}"), number::seconds)
        }));
        all.extend([
            doubt(Metric::from_name("response_median_ms"), "median response, ms", number::seconds),
            doubt(Metric::from_name("response_longest_ms"), "longest response, ms", number::seconds),
            doubt(Metric::from_name("longest_wait_ms"), "longest wait, ms", number::seconds),
            doubt(Metric::from_name("jain_index"), "Jain's fairness index", |index| format!("{index:.4}")),
        ]);
        all
    }

    /// What was simulated, in one sentence.
    pub(crate) fn setting(&self) -> String {
        let plan = &self.record.plan;
        format!(
            "Simulated: {} {}",
            self.workload(),
            where_and_how_often(self.machine.as_ref(), plan.cpus, plan.replicates, plan.seed, &self.record.host)
        )
    }

    /// The jobs of the workload, a line each.
    pub(crate) fn jobs(&self) -> Vec<String> {
        let Sharing::Time { workload, .. } = &self.simulation.sharing else {
            return space::jobs(&self.record.plan);
        };
        workload.jobs.iter().map(job_in_words).collect()
    }

    /// The numbers of the simulation that are the same at every point of its sweep, by name.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        let swept =
            |name: &str| self.swept().is_some_and(|swept| swept == name || name.starts_with("phi") && swept == "phi");
        parameters(&self.simulation.sharing.parameters()).into_iter().filter(|(name, _)| !swept(name)).collect()
    }
}

/// The end of a sentence on what was simulated or replayed: on which machine, with so many CPUs, and how often.
pub(crate) fn where_and_how_often(
    machine: Option<&Machine>,
    cpus: u32,
    replicates: u32,
    seed: u64,
    host: &HostFacts,
) -> String {
    format!(
        "on {}, {}, {} of each policy (seed {seed}), Stayput {}.",
        plain(machine.map_or("a machine that this version can't read", Machine::name)),
        count(cpus as usize, "CPU"),
        count(replicates as usize, "replicate"),
        host.stayput_version
    )
}

/// The parameters that are set, by name.
pub(crate) fn parameters(parameters: &impl Serialize) -> Vec<(String, String)> {
    let written = |value: &Value| match value {
        Value::String(word) => word.clone(),
        other => other.to_string(),
    };
    let fields = match serde_json::to_value(parameters) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let mut set = Vec::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match (name.as_str(), value) {
            // A row each: as one value they would fill the page.
            ("kernel", Value::Object(inner)) => {
                set.extend(inner.iter().map(|(own, value)| (format!("{name}.{own}"), written(value))));
            }
            _ => set.push((name.clone(), written(value))),
        }
    }
    set
}

/// Whether a policy of that name is a kernel's own scheduler.
pub(crate) fn is_kernels(policy: &str) -> bool {
    policy.parse::<sim::Policy>().is_ok_and(sim::Policy::is_kernels)
}

/// What the scheduler that a kernel has is called.
pub(crate) fn own_scheduler(release: sim::Release) -> String {
    format!("Linux {release}'s own scheduler")
}

/// Which kernel's own scheduler was modelled, and what is left out of it, in sentences.
pub(crate) fn kernel_in_words(release: sim::Release) -> String {
    // `replay`'s test `fair` has held it against that one.
    let near = match release {
        sim::Release::Linux7_3 => {
            "nine of ten of its figures were within 25 % of what that kernel did with twenty workloads"
        }
        _ => "how far it is from that kernel isn't known yet",
    };
    format!(
        "eevdf is a model of the fair scheduler of Linux {release}, from its documentation; {near}. Limits of control groups, kernel threads, NUMA balancing and the time that scheduling itself takes aren't in it."
    )
}

/// A job in a line.
pub(crate) fn job_in_words(job: &sim::Job) -> String {
    let memory = &job.process.memory;
    let at_once = job.at_once.map_or_else(String::new, |n| format!(", {n} at once"));
    let misses = if memory.reload_lines > 0.0 || memory.steady_misses_per_ms > 0.0 {
        format!("{} lines reused, {} misses a ms of work besides", memory.reload_lines, memory.steady_misses_per_ms)
    } else {
        "no misses".into()
    };
    format!("{}: {}{at_once}; {misses}", plain(&job.name), count_processes(job.processes))
}

impl Quantity {
    fn value(&self, result: &PolicyResult) -> Cell {
        let Some(estimate) = result.estimates.get(&self.metric) else { return Cell::default() };
        let interval = estimate.low.zip(estimate.high).map(|(low, high)| ((self.write)(low), (self.write)(high)));
        let interval = interval.filter(|(low, high)| self.told != Told::Part && low != high);
        Cell { text: (self.write)(estimate.value), interval, ..Cell::default() }
    }

    fn change(&self, result: &PolicyResult) -> Cell {
        result.changes.get(&self.metric).map_or_else(Cell::default, change_cell)
    }
}

/// What the figures of a table are, of so many replicates each.
pub(crate) fn means(replicates: u32) -> &'static str {
    match replicates {
        1 => "One replicate, so without intervals",
        _ => "Means over replicates, with 95 % intervals",
    }
}

/// Whether a policy's changes against the reference are told.
fn is_compared(point: &PointResult, result: &PolicyResult) -> bool {
    point.reference.as_ref().is_some_and(|reference| *reference != result.policy)
}

/// One row a point: what each policy does to misses and time there, and how long its slices are.
fn of_points(points: &[PointResult], swept: &str) -> Table {
    let mut table = Table::of_policies(plain(swept), Vec::new());
    points.iter().for_each(|point| table.push(value_of(point), Vec::new()));
    // What is asked for first: the reference, whose figures are the same at many points, comes last.
    let mut order: Vec<(usize, &PolicyResult)> = points[0].policies.iter().enumerate().collect();
    order.sort_by_key(|(_, result)| !is_compared(&points[0], result));
    for (at, result) in order {
        let policy = plain(&result.policy);
        let compared = is_compared(&points[0], result);
        table.heads.extend([format!("{policy}: misses"), "time".into(), "slice, ms".into()]);
        for (Row { cells, .. }, point) in table.rows.iter_mut().zip(points) {
            let Some(result) = point.policies.get(at) else { continue };
            let figure = |metric: &Metric, write: fn(f64) -> String| match result.changes.get(metric) {
                Some(change) if compared => change_cell(change),
                _ => Cell::from(result.value(metric).map(write).unwrap_or_default()),
            };
            let slice = result.value(&SLICE_MEDIAN).map(number::seconds).unwrap_or_default();
            cells.extend([
                figure(&MISSES, |misses| format!("{} k", thousands(misses))),
                figure(&MAKESPAN, |ms| format!("{} s", seconds(ms))),
                slice.into(),
            ]);
        }
    }
    table
}

/// The value of the swept parameter.
pub(crate) fn value_of(point: &PointResult) -> String {
    point.point.as_ref().map_or_else(String::new, |SweepPoint { value, .. }| value.to_string())
}

/// A change in percent with its interval; claimed where that leaves no doubt. Less is better of all that is compared.
fn change_cell(change: &Estimated) -> Cell {
    let interval = change.low.zip(change.high);
    let widest = interval.map_or(change.value.abs(), |(low, high)| high - low);
    let decimals = usize::from(widest < 2.0);
    let signed = |percent: f64| {
        // Adding 0 leaves no negative zero.
        let rounded = (percent * 10_f64.powi(decimals as i32)).round() / 10_f64.powi(decimals as i32) + 0.0;
        format!("{}{rounded:.decimals$}", if rounded > 0.0 { "+" } else { "" })
    };
    let written = interval.map(|(low, high)| (signed(low), signed(high)));
    let nothing = signed(0.0);
    // What differs in rounding errors only doesn't differ.
    if written.as_ref().is_some_and(|(low, high)| *low == nothing && *high == nothing) {
        return format!("{nothing} %").into();
    }
    let claim = match interval {
        Some((_, high)) if high < 0.0 => Some(Claim::Faster),
        Some((low, _)) if low > 0.0 => Some(Claim::Slower),
        _ => None,
    };
    Cell { text: format!("{} %", signed(change.value)), interval: written, claim, is_busy: false }
}

fn percent(share: f64) -> String {
    number::percent(share).trim_end_matches(" %").into()
}

fn thousands(count: f64) -> String {
    number::seconds(count / 1e3)
}

fn seconds(ms: f64) -> String {
    number::seconds(ms / 1e3)
}

fn count_processes(processes: u32) -> String {
    if processes == 1 { "1 process".into() } else { format!("{processes} processes") }
}
