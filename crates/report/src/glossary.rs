//! What words of a report mean, once for every form that explains them.

use crate::terminal::paragraph;

/// A word, and what it means.
pub(crate) type Entry = (&'static str, &'static str);

const POINT: Entry = ("point", "One value of the swept parameter; everything else stays.");

/// A simulation of time sharing.
pub(crate) const TIME_SHARING: [Entry; 9] = [
    (
        "replicate",
        "One simulation of the whole workload under one policy. Replicate 3 has the same arrivals, work, intervals and blocking times under every policy, so differences are the policies'.",
    ),
    (
        "change",
        "By how much a policy differs from the one that the line below the table names, from pairs of replicates with the same draws: the geometric mean of their ratios.",
    ),
    (
        "95 % interval",
        "If the whole simulation were repeated with other seeds, 95 of 100 such intervals would hold the mean change of all draws.",
    ),
    (
        "reload, steady, invalidation",
        "Misses to load again what the process had cached; misses that it has even with all that cached; misses because a writer elsewhere took a line away.",
    ),
    (
        "effective slice",
        "Time on a CPU with no other process in between; several dispatch intervals when the same process is chosen again.",
    ),
    (
        "dispatch interval",
        "From one look of a CPU at the run queue to its next. Of the causes that end it, only a semaphore takes the process out of the queue.",
    ),
    ("dispatch", "A CPU looked at the run queue and took a process, perhaps the same again."),
    (
        "Jain's fairness index",
        "Fairness of CPU time among equal processes when the first of them ends: 1 is perfectly fair, 1 over their number is all for one.",
    ),
    POINT,
];

/// A simulation of space sharing.
pub(crate) const SPACE_SHARING: [Entry; 10] = [
    ("response time", "From a job's arrival to its end: the mean over its kind's jobs."),
    (
        "change, ratio",
        "Against equipartition, from pairs of replicates with the same arrivals and the same work of every task: the geometric mean of their ratios.",
    ),
    (
        "95 % interval",
        "If the whole simulation were repeated with other seeds, 95 of 100 such intervals would hold the mean change of all draws.",
    ),
    (
        "worker",
        "What the kernel schedules: it does one task of its job after another. When its CPU is taken it keeps the task that it is at.",
    ),
    (
        "CPU given, worker moved",
        "A CPU goes from one job, or from none, to another; a worker begins on a CPU where it had not just run.",
    ),
    (
        "nobody used, taken, their job had",
        "A worker moves to a CPU that was free or given up; that was taken from a job that used it; or that its own job had.",
    ),
    (
        "reload",
        "Time to bring back cached lines that a worker had when it last stopped and that are gone, or are in other caches. First misses of a task are part of its work.",
    ),
    (
        "accounting",
        "Work, time in hand without work, switches and reloads of a job are exactly its response time times the CPUs that it had on average.",
    ),
    (
        "future",
        "CPU speed times cache size, as a multiple of the machine's: each grows by the square root, working sets as caches do, and memory becomes faster by the fourth root only.",
    ),
    POINT,
];

/// Replays.
pub(crate) const REPLAYS: [Entry; 8] = [
    (
        "replay",
        "The workload once, with a real process for each simulated one: it works until it has had so much CPU time, sleeps, and waits for locks and barriers, as the simulated process of its number does.",
    ),
    (
        "kernel over simulated",
        "The geometric mean of the ratios of replicates with the same draws. Marked where the two worlds should agree and differ by more than 25 %.",
    ),
    ("effective slice", "Time on a CPU with no other process of the workload in between."),
    ("migration", "A process goes on on another CPU than where it last was."),
    ("lateness", "From when a process that slept was to wake until it had a CPU."),
    ("longest wait", "The longest that a process that could run had no CPU."),
    (
        "CPU time, least over most",
        "CPU time of the process that had least, over that of the one that had most, of those that do the same and arrived together: 1 is perfectly fair.",
    ),
    (
        "misses, modelled",
        "References to the workload's own data that the caches of the machine would have missed, by a model of them under every access of the guest. Lines that a process had never used before don't count.",
    ),
];

/// Papers beside ours.
pub(crate) const REPRODUCTION: [Entry; 9] = [
    (
        "printed",
        "What the paper prints in this place. Cells without it are ours alone: the paper prints nothing there, or it has not come down to us.",
    ),
    ("ours", "The mean of all replicates, or what a fitted model says."),
    (
        "95 % interval",
        "If everything were simulated again with other seeds, 95 of 100 such intervals would hold the mean of all draws. It says nothing of how far the model is from the paper's machine.",
    ),
    ("difference", "Ours less printed, in the table's unit."),
    ("lost", "What was printed there hasn't come down to us, and nothing predicts it."),
    (
        "live",
        "What this machine measured when the paper's study was run on it, with the 95 % interval. Seconds of different machines and classes can't be compared; ratios and speed-ups can. A claim is judged by intervals so much wider that all those it asks for hold at once.",
    ),
    ("holds", "What the claim says is so in the numbers named after it, intervals included."),
    (
        "fails",
        "It isn't, interval included; the numbers after it tell why, and what in the paper makes it so where that is known.",
    ),
    ("undecidable", "The interval holds both, or there is no number for it."),
];

/// The entries for a terminal of `width` columns.
pub(crate) fn terminal(entries: impl IntoIterator<Item = Entry>, width: usize) -> String {
    let mut text = String::from("What the words mean:\n");
    for (word, meaning) in entries {
        paragraph(&mut text, "  ", &format!("{word}: {meaning}"), width.max(40));
    }
    text
}
