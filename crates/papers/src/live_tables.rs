//! Tables of what was measured of the report's workloads, beside what is simulated, of which the report has none.

use crate::evidence::Evidence;
use crate::interval::ends;
use crate::live_numbers::{LiveNumbers, TIME};
use crate::live_workloads::{ALL_MISSES, ATTACHED, LONG_SLICE, LiveWorkloads, Place, RELOAD_MISSES};
use crate::reproduction::{ReproducedCell, ReproducedRow, ReproducedTable};
use crate::simulated::Simulated;
use sim::Policy;
use simulation::Estimated;
use simulation::metrics::{MAKESPAN, MEAN_COMPLETION, MISSES};
use stats::{By, Metric};
use study::mix::MEAN_COMPLETION as MEAN_COMPLETION_NAME;

/// Schedulers that are measured in the virtual machine, the simulator's names for them, and how sentences call them.
const SCHEDULERS: [(&str, Policy, &str); 6] = [
    ("phi=0:0", Policy::Standard, "standard"),
    ("light", Policy::Light, "light"),
    ("heavy", Policy::Heavy, "heavy"),
    ("phi=6:6:complex", Policy::ComplexLight, "complex"),
    ("default", Policy::Eevdf, "Linux's own"),
    ("cache-aware=on", Policy::EevdfLlc, "cache-aware"),
];

/// A column: what is simulated, and what is measured beside it.
struct Column {
    head: &'static str,
    policy: Policy,
    simulated: Metric,
    scheduling: &'static str,
    what: &'static str,
}

impl Column {
    fn cell(&self, numbers: &LiveNumbers, place: Place, simulated: &Simulated) -> ReproducedCell {
        let change = match place {
            Place::Here => Simulated::change_against_kernel,
            Place::Vm => Simulated::change,
        };
        let measured = numbers.change(place, simulated.name(), self.scheduling, self.what);
        ReproducedCell::number(None, change(simulated, self.policy, &self.simulated)).with_live(measured)
    }
}

/// What stands in a column of the report's Table V: misses alone, since times of a virtual machine mean nothing.
pub(super) fn effect(numbers: &LiveNumbers, workload: &str, column: usize) -> Option<Estimated> {
    let scheduling = *["light", "heavy"].get(column)?;
    numbers.change(Place::Vm, workload, scheduling, ALL_MISSES)
}

/// All of them that something was measured for.
pub(super) fn tables(live: &LiveWorkloads, numbers: &LiveNumbers, evidence: &Evidence) -> Vec<ReproducedTable> {
    let column = |head, policy, simulated: &Metric, scheduling, what| Column {
        head,
        policy,
        simulated: simulated.clone(),
        scheduling,
        what,
    };
    let (attached, long, mean) = (Policy::EevdfAttached, Policy::EevdfLongSlice, MEAN_COMPLETION_NAME);
    let times = [
        column("whole workload, attached", attached, &MAKESPAN, ATTACHED, TIME),
        column("whole workload, long slices", long, &MAKESPAN, LONG_SLICE, TIME),
        column("mean job completion, attached", attached, &MEAN_COMPLETION, ATTACHED, mean),
        column("mean job completion, long slices", long, &MEAN_COMPLETION, LONG_SLICE, mean),
    ];
    let reloads = MISSES.by(By::Cause("reload".into()));
    let misses = [
        column("misses, complex", Policy::ComplexLight, &MISSES, "phi=6:6:complex", ALL_MISSES),
        column("misses, Linux's own", Policy::Eevdf, &MISSES, "default", ALL_MISSES),
        column("misses, cache-aware", Policy::EevdfLlc, &MISSES, "cache-aware=on", ALL_MISSES),
        column("of reloads, light", Policy::Light, &reloads, "light", RELOAD_MISSES),
        column("of reloads, heavy", Policy::Heavy, &reloads, "heavy", RELOAD_MISSES),
    ];
    let table = |place, name: &str, title: &str, about: &str, columns: &[Column]| {
        let rows = evidence.workloads.iter().map(|simulated| ReproducedRow {
            label: simulated.name().to_owned(),
            cells: columns.iter().map(|column| column.cell(numbers, place, simulated)).collect(),
        });
        let rows: Vec<ReproducedRow> = rows.collect();
        numbers.is_measured(place).then(|| ReproducedTable {
            name: name.to_owned(),
            title: title.to_owned(),
            about: about.to_owned(),
            margin: None,
            corner: "workload".into(),
            columns: columns.iter().map(|column| column.head.to_owned()).collect(),
            rows,
        })
    };
    let here = "change against the kernel's own scheduler, in percent: simulated on the report's machine under the newest Linux that is \
                modelled, and measured with programs of today on this machine, of which attached binds each process with all of its threads; the \
                report has no such table";
    let orders = orders(live, evidence);
    let guest = format!(
        "change against the standard scheduler, in percent: simulated, where misses are those of the same work, and counted in the virtual \
         machine, where they are of 1,000 references; {}; the report has no such table",
        summary(&orders)
    );
    let here = table(Place::Here, "live-times", "Times, live", here, &times);
    let guest = table(Place::Vm, "live-misses", "Misses, live", &guest, &misses);
    here.into_iter().chain(guest).chain(order_table(&orders)).collect()
}

/// Two schedulers of one workload: what the first changes in misses against the second.
struct Order {
    label: String,
    simulated: Option<Estimated>,
    measured: Estimated,
}

impl Order {
    /// Whether simulated and measured misses go the same way; none where one of them shows no difference.
    fn agrees(&self) -> Option<bool> {
        let way = |change: Estimated| {
            let (low, high) = ends(change);
            // Without an interval nothing is shown.
            let is_shown = change.low.is_some() && (low > 0.0 || high < 0.0);
            is_shown.then_some(change.value > 0.0)
        };
        Some(way(self.simulated?)? == way(self.measured)?)
    }
}

/// Every two schedulers under which a workload was measured. Intervals hold all at once of those of a workload.
fn orders(live: &LiveWorkloads, evidence: &Evidence) -> Vec<Order> {
    const AMONG: usize = SCHEDULERS.len() * (SCHEDULERS.len() - 1) / 2;
    let mut orders = Vec::new();
    for simulated in &evidence.workloads {
        for (at, (reference, of, than)) in SCHEDULERS.iter().enumerate() {
            for (scheduling, policy, called) in &SCHEDULERS[at + 1..] {
                let name = simulated.name();
                let Some(measured) = live.misses_against(name, scheduling, reference, AMONG) else { continue };
                orders.push(Order {
                    label: format!("{name}: {called} against {than}"),
                    simulated: simulated.misses_against(*policy, *of, AMONG),
                    measured,
                });
            }
        }
    }
    orders
}

/// How far the orders agree, within a sentence.
fn summary(orders: &[Order]) -> String {
    let told: Vec<bool> = orders.iter().filter_map(Order::agrees).collect();
    match (orders.len(), told.len()) {
        (0, _) => "no two schedulers were measured often enough to be ordered".into(),
        (all, 0) => format!("of {all} pairs of schedulers that were measured none differs both simulated and counted"),
        (all, both) => format!(
            "of {all} pairs of schedulers that were measured {both} differ both simulated and counted, and {} of these are ordered alike",
            told.iter().filter(|agrees| **agrees).count()
        ),
    }
}

/// The pairs that differ both ways; none where there are none.
fn order_table(orders: &[Order]) -> Option<ReproducedTable> {
    let row = |order: &Order| {
        let ours = if order.agrees()? { "the same order" } else { "another order" };
        Some(ReproducedRow {
            label: order.label.clone(),
            cells: vec![
                ReproducedCell::number(None, order.simulated).with_live(Some(order.measured)),
                ReproducedCell::words("", ours),
            ],
        })
    };
    let rows: Vec<ReproducedRow> = orders.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| ReproducedTable {
        name: "live-order".into(),
        title: "Order of schedulers, live".into(),
        about: "which of two schedulers misses less, wherever both the simulation and the virtual machine show a difference among all pairs of \
                a workload: change of misses in percent; the report has no such table"
            .into(),
        margin: None,
        corner: "workload".into(),
        columns: vec!["misses".into(), "simulated and measured".into()],
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(simulated: Option<(f64, f64)>, measured: (f64, f64)) -> Order {
        let estimated =
            |(low, high): (f64, f64)| Estimated { value: (low + high) / 2.0, low: Some(low), high: Some(high) };
        Order { label: "a".into(), simulated: simulated.map(estimated), measured: estimated(measured) }
    }

    #[test]
    fn orders_agree_only_where_both_show_a_difference() {
        let cases = [
            (Some((-9.0, -2.0)), (-30.0, -20.0), Some(true)),
            (Some((1.0, 2.0)), (-30.0, -20.0), Some(false)),
            (Some((-1.0, 2.0)), (-30.0, -20.0), None),
            (Some((-9.0, -2.0)), (-3.0, 2.0), None),
            (None, (-30.0, -20.0), None),
        ];
        for (simulated, measured, agrees) in cases {
            assert_eq!(order(simulated, measured).agrees(), agrees, "{simulated:?} {measured:?}");
        }
        let one_replicate =
            Order { simulated: Some(Estimated { value: -9.0, low: None, high: None }), ..order(None, (-30.0, -20.0)) };
        assert_eq!(one_replicate.agrees(), None);
        let all = cases.map(|(simulated, measured, _)| order(simulated, measured));
        assert!(summary(&all).starts_with("of 5 pairs of schedulers that were measured 2 differ"), "{}", summary(&all));
        assert!(summary(&all).ends_with("and 1 of these are ordered alike"));
        assert_eq!(order_table(&all).unwrap().rows.len(), 2);
        assert_eq!(order_table(&all[2..]), None);
    }
}
