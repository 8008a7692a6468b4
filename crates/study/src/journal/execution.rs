//! Executions of programs in a journal: the tables `trial` and `thread`.

use crate::row::{ColumnNames, Columns, Detail, Row, RowError, Tables, insert, integer, to_json};
use crate::shape::Shape;
use crate::trial::{More, Status, Trial};
use launch::{ConditionsObservation, Exit, Observation, ThreadObservation};
use machine::{CpuId, CpuSet};
use rusqlite::Connection;
use std::cell::RefCell;
use std::cmp::Ordering;

impl Row for Trial {
    const TABLES: &'static str = "
CREATE TABLE trial (
    sequence INTEGER PRIMARY KEY,
    block INTEGER NOT NULL,
    warmup INTEGER NOT NULL,
    subject TEXT NOT NULL,
    threads INTEGER NOT NULL,
    placement TEXT NOT NULL,
    status TEXT NOT NULL,
    cause TEXT NOT NULL,
    time_s REAL,
    started_unix_s REAL NOT NULL,
    intended_cpus TEXT,
    output_tail TEXT NOT NULL,
    exit TEXT,
    wall_s REAL,
    user_s REAL,
    system_s REAL,
    max_rss_bytes INTEGER,
    voluntary_switches INTEGER,
    involuntary_switches INTEGER,
    migrations INTEGER,
    minor_faults INTEGER,
    major_faults INTEGER,
    counters TEXT,
    leftovers INTEGER,
    notes TEXT,
    stops INTEGER,
    stops_s REAL,
    conditions TEXT,
    jobs TEXT,
    metric_values TEXT,
    read_bytes INTEGER,
    written_bytes INTEGER,
    energy_j REAL,
    load TEXT,
    log_tail TEXT,
    node TEXT,
    ranks INTEGER NOT NULL DEFAULT 0,
    UNIQUE (block, subject, threads, placement, ranks)
) STRICT;
CREATE TABLE thread (
    sequence INTEGER NOT NULL REFERENCES trial (sequence),
    process INTEGER NOT NULL,
    exec INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    intended_cpus TEXT,
    actual_cpus TEXT NOT NULL,
    last_cpu INTEGER,
    migrations INTEGER,
    cpu_s REAL,
    waited_s REAL,
    began_s REAL,
    ended_s REAL,
    name TEXT,
    is_helper INTEGER
) STRICT;
CREATE INDEX thread_by_trial ON thread (sequence);
";

    const ADDED_COLUMNS: &'static [(&'static str, &'static str)] = &[
        ("trial", "stops INTEGER"),
        ("trial", "stops_s REAL"),
        ("trial", "conditions TEXT"),
        ("trial", "jobs TEXT"),
        ("trial", "metric_values TEXT"),
        ("trial", "read_bytes INTEGER"),
        ("trial", "written_bytes INTEGER"),
        ("trial", "energy_j REAL"),
        ("trial", "load TEXT"),
        ("trial", "log_tail TEXT"),
        ("trial", "node TEXT"),
        ("trial", "ranks INTEGER NOT NULL DEFAULT 0"),
        ("thread", "cpu_s REAL"),
        ("thread", "waited_s REAL"),
        ("thread", "began_s REAL"),
        ("thread", "ended_s REAL"),
        ("thread", "name TEXT"),
        ("thread", "is_helper INTEGER"),
    ];

    const ADDED_TABLES: &'static str = "
CREATE TABLE IF NOT EXISTS disturbed (
    id INTEGER PRIMARY KEY,
    trial TEXT NOT NULL
) STRICT;
";

    fn insert_disturbed(&self, connection: &Connection) -> rusqlite::Result<()> {
        insert(connection, "disturbed", &[("trial", &to_json(self))])
    }

    fn read_disturbed(tables: &Tables) -> Result<Vec<Self>, RowError> {
        if !tables.has("disturbed")? {
            return Ok(Vec::new());
        }
        tables.rows("SELECT trial FROM disturbed ORDER BY id", |row| row.json("trial"))
    }

    fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (observed, more) = (self.observation.as_ref(), self.more.as_ref());
        insert(
            connection,
            "trial",
            &[
                ("sequence", &self.sequence),
                ("block", &self.block),
                ("warmup", &self.warmup),
                ("subject", &self.subject),
                ("threads", &self.threads.threads()),
                ("ranks", &self.threads.ranks().unwrap_or(0)),
                ("placement", &self.placement),
                ("status", &self.status.to_string()),
                ("cause", &self.cause),
                ("time_s", &self.time_s),
                ("started_unix_s", &self.started_unix_s),
                ("intended_cpus", &self.intended_cpus.as_ref().map(to_json)),
                ("output_tail", &self.output_tail),
                ("exit", &observed.map(|o| to_json(&o.exit))),
                ("wall_s", &self.ran_s),
                ("user_s", &observed.map(|o| o.user_s)),
                ("system_s", &observed.map(|o| o.system_s)),
                ("max_rss_bytes", &observed.map(|o| integer(o.max_rss_bytes))),
                ("voluntary_switches", &observed.map(|o| integer(o.voluntary_switches))),
                ("involuntary_switches", &observed.map(|o| integer(o.involuntary_switches))),
                ("migrations", &observed.and_then(|o| o.migrations).map(integer)),
                ("minor_faults", &observed.map(|o| integer(o.minor_faults))),
                ("major_faults", &observed.map(|o| integer(o.major_faults))),
                ("read_bytes", &observed.and_then(|o| o.read_bytes).map(integer)),
                ("written_bytes", &observed.and_then(|o| o.written_bytes).map(integer)),
                ("energy_j", &observed.and_then(|o| o.energy_j)),
                ("load", &more.and_then(|more| more.load.as_ref()).map(to_json)),
                ("log_tail", &more.map(|more| &more.log_tail).filter(|log| !log.is_empty())),
                ("node", &more.and_then(|more| more.node.as_ref())),
                ("counters", &observed.map(|o| to_json(&o.counters))),
                ("leftovers", &observed.map(|o| o.leftovers)),
                ("notes", &observed.map(|o| to_json(&o.notes))),
                ("stops", &observed.and_then(|o| o.stops).map(integer)),
                ("stops_s", &observed.and_then(|o| o.stops_s)),
                ("conditions", &observed.map(|o| &o.conditions).filter(|seen| !seen.is_empty()).map(to_json)),
                ("jobs", &more.map(|more| &more.jobs).filter(|jobs| !jobs.is_empty()).map(to_json)),
                ("metric_values", &more.map(|more| &more.values).filter(|values| !values.is_empty()).map(to_json)),
            ],
        )?;
        observed.into_iter().flat_map(|o| &o.threads).try_for_each(|thread| {
            insert(
                connection,
                "thread",
                &[
                    ("sequence", &self.sequence),
                    ("process", &thread.process),
                    ("exec", &thread.exec),
                    ("thread", &thread.thread),
                    ("tid", &thread.tid),
                    ("intended_cpus", &thread.intended_cpus.as_ref().map(CpuSet::to_string)),
                    ("actual_cpus", &thread.actual_cpus.to_string()),
                    ("last_cpu", &thread.last_cpu.map(|cpu| cpu.0)),
                    ("migrations", &thread.migrations.map(integer)),
                    ("cpu_s", &thread.cpu_s),
                    ("waited_s", &thread.waited_s),
                    ("began_s", &thread.began_s),
                    ("ended_s", &thread.ended_s),
                    ("name", &thread.name),
                    ("is_helper", &thread.is_helper.then_some(true)),
                ],
            )
        })
    }

    fn forget_details(&mut self) {
        (self.intended_cpus, self.observation, self.output_tail) = (None, None, String::new());
        // What is counted, or written by the program, may decide when it is enough.
        let values = self.more.take().map(|more| more.values).unwrap_or_default();
        self.more = More { values, ..More::default() }.boxed();
    }

    fn read_all(tables: &Tables, detail: Detail) -> Result<Vec<Self>, RowError> {
        // In one go, so that it takes no longer where a journal has lost its index; and trial by trial, so that none is in memory twice.
        let mut statement = tables.prepare("SELECT * FROM thread ORDER BY sequence, rowid")?;
        let names = ColumnNames::default();
        let threads = RefCell::new(Threads { rows: statement.query([])?, names, next: None, tables });
        tables.rows("SELECT * FROM trial ORDER BY sequence", |row| {
            let sequence = row.number("sequence")?;
            let threads = threads.borrow_mut().of_trial(sequence)?;
            let exit: Option<Exit> = row.optional_json("exit")?;
            let observation = exit.map(|exit| observation(row, threads, exit)).transpose()?;
            let status: Status = row.variant("status")?;
            let has_tail = detail == Detail::Everything || status.is_failure();
            let mut trial = Self {
                sequence,
                block: row.number("block")?,
                warmup: row.get("warmup")?,
                subject: row.get("subject")?,
                threads: shape(row)?,
                placement: row.get("placement")?,
                status,
                cause: row.get("cause")?,
                time_s: row.optional_seconds("time_s")?,
                started_unix_s: row.seconds("started_unix_s")?,
                ran_s: row.optional_seconds("wall_s")?,
                intended_cpus: row
                    .optional_json::<Vec<CpuSet>>("intended_cpus")?
                    .map(|slots| slots.into_iter().map(|slot| tables.shared(slot)).collect())
                    .transpose()?,
                observation,
                more: more(row)?.boxed(),
                output_tail: if has_tail { row.get("output_tail")? } else { String::new() },
            };
            if detail == Detail::Deciding {
                trial.forget_details();
            }
            Ok(trial)
        })
    }

    /// The tables were the same, with columns for what simulations showed.
    fn read_older(tables: &Tables, detail: Detail) -> Result<Vec<Self>, RowError> {
        Self::read_all(tables, detail)
    }
}

/// The threads of all trials, in the order of these.
struct Threads<'a> {
    rows: rusqlite::Rows<'a>,
    names: ColumnNames,
    /// One that was read, and is of a later trial.
    next: Option<(u32, ThreadObservation)>,
    tables: &'a Tables<'a>,
}

impl Threads<'_> {
    /// Those of a trial, which is later than all that were asked for before.
    fn of_trial(&mut self, sequence: u32) -> Result<Vec<ThreadObservation>, RowError> {
        let mut found = Vec::new();
        while let Some((of, thread)) = self.take_next()? {
            match of.cmp(&sequence) {
                Ordering::Less => {}
                Ordering::Equal => found.push(thread),
                Ordering::Greater => {
                    self.next = Some((of, thread));
                    break;
                }
            }
        }
        found.shrink_to_fit();
        Ok(found)
    }

    fn take_next(&mut self) -> Result<Option<(u32, ThreadObservation)>, RowError> {
        if self.next.is_some() {
            return Ok(self.next.take());
        }
        match self.rows.next()? {
            Some(row) => self.tables.read(row, &self.names, thread).map(Some),
            None => Ok(None),
        }
    }
}

fn observation(row: &Columns, threads: Vec<ThreadObservation>, exit: Exit) -> Result<Observation, RowError> {
    Ok(Observation {
        exit,
        wall_s: row.seconds("wall_s")?,
        user_s: row.seconds("user_s")?,
        system_s: row.seconds("system_s")?,
        max_rss_bytes: row.count("max_rss_bytes")?,
        voluntary_switches: row.count("voluntary_switches")?,
        involuntary_switches: row.count("involuntary_switches")?,
        migrations: row.optional_count("migrations")?,
        minor_faults: row.count("minor_faults")?,
        major_faults: row.count("major_faults")?,
        read_bytes: if row.has("read_bytes") { row.optional_count("read_bytes")? } else { None },
        written_bytes: if row.has("written_bytes") { row.optional_count("written_bytes")? } else { None },
        energy_j: row.added_seconds("energy_j")?,
        counters: row.json("counters")?,
        stops: if row.has("stops") { row.optional_count("stops")? } else { None },
        stops_s: if row.has("stops_s") { row.optional_seconds("stops_s")? } else { None },
        threads,
        leftovers: row.get("leftovers")?,
        conditions: if row.has("conditions") {
            row.optional_json("conditions")?.unwrap_or_default()
        } else {
            ConditionsObservation::default()
        },
        notes: row.json("notes")?,
    })
}

/// The threads of a program, or of each of its ranks. Journals of before there were any lack the number of these.
fn shape(row: &Columns) -> Result<Shape, RowError> {
    let ranks = if row.has("ranks") { row.get("ranks")? } else { 0 };
    Ok(Shape::of_numbers(ranks, row.get("threads")?))
}

/// What journals of before mixes hadn't got.
fn more(row: &Columns) -> Result<More, RowError> {
    let mut more = More::default();
    if row.has("jobs") {
        more.jobs = row.optional_json("jobs")?.unwrap_or_default();
    }
    if row.has("metric_values") {
        more.values = row.optional_json("metric_values")?.unwrap_or_default();
    }
    if row.has("load") {
        more.load = row.optional_json("load")?;
    }
    more.log_tail = row.added("log_tail")?.unwrap_or_default();
    more.node = row.added("node")?;
    Ok(more)
}

/// A thread, with the number of its trial.
fn thread(row: &Columns) -> Result<(u32, ThreadObservation), RowError> {
    let thread = ThreadObservation {
        process: row.get("process")?,
        exec: row.get("exec")?,
        thread: row.get("thread")?,
        tid: row.get("tid")?,
        name: row.added("name")?,
        intended_cpus: row.optional_cpus("intended_cpus")?,
        actual_cpus: row.cpus("actual_cpus")?,
        last_cpu: row.get::<Option<u32>>("last_cpu")?.map(CpuId),
        migrations: row.optional_count("migrations")?,
        cpu_s: row.added_seconds("cpu_s")?,
        waited_s: row.added_seconds("waited_s")?,
        is_helper: row.has("is_helper") && row.get::<Option<bool>>("is_helper")?.unwrap_or(false),
        began_s: row.added_seconds("began_s")?,
        ended_s: row.added_seconds("ended_s")?,
    };
    Ok((row.number("sequence")?, thread))
}
