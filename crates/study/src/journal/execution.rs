//! Executions of programs in a journal: the tables `trial` and `thread`.

use crate::row::{JournalError, Reader, Row, integer, to_json};
use crate::trial::Trial;
use launch::{Exit, Observation, ThreadObservation};
use machine::{CpuId, CpuSet};
use rusqlite::{Connection, params};

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
    UNIQUE (block, subject, threads, placement)
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
    migrations INTEGER
) STRICT;
CREATE INDEX thread_by_trial ON thread (sequence);
";

    fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let observed = self.observation.as_ref();
        connection
            .prepare_cached(
                "INSERT INTO trial (sequence, block, warmup, subject, threads, placement, status, cause, time_s,
                     started_unix_s, intended_cpus, output_tail, exit, wall_s, user_s, system_s, max_rss_bytes,
                     voluntary_switches, involuntary_switches, migrations, minor_faults, major_faults, counters,
                     leftovers, notes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                     ?21, ?22, ?23, ?24, ?25)",
            )?
            .execute(params![
                self.sequence,
                self.block,
                self.warmup,
                self.subject,
                self.threads,
                self.placement,
                self.status.to_string(),
                self.cause,
                self.time_s,
                self.started_unix_s,
                self.intended_cpus.as_ref().map(to_json),
                self.output_tail,
                observed.map(|o| to_json(&o.exit)),
                self.ran_s,
                observed.map(|o| o.user_s),
                observed.map(|o| o.system_s),
                observed.map(|o| integer(o.max_rss_bytes)),
                observed.map(|o| integer(o.voluntary_switches)),
                observed.map(|o| integer(o.involuntary_switches)),
                observed.and_then(|o| o.migrations).map(integer),
                observed.map(|o| integer(o.minor_faults)),
                observed.map(|o| integer(o.major_faults)),
                observed.map(|o| to_json(&o.counters)),
                observed.map(|o| o.leftovers),
                observed.map(|o| to_json(&o.notes)),
            ])?;
        let mut insert_thread = connection.prepare_cached(
            "INSERT INTO thread (sequence, process, exec, thread, tid, intended_cpus, actual_cpus, last_cpu, migrations)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        for thread in observed.into_iter().flat_map(|o| &o.threads) {
            insert_thread.execute(params![
                self.sequence,
                thread.process,
                thread.exec,
                thread.thread,
                thread.tid,
                thread.intended_cpus.as_ref().map(CpuSet::to_string),
                thread.actual_cpus.to_string(),
                thread.last_cpu.map(|cpu| cpu.0),
                thread.migrations.map(integer),
            ])?;
        }
        Ok(())
    }

    fn read_all(reader: &Reader) -> Result<Vec<Self>, JournalError> {
        let mut threads = reader.sql(reader.connection.prepare(
            "SELECT process, exec, thread, tid, intended_cpus, actual_cpus, last_cpu, migrations FROM thread
             WHERE sequence = ?1 ORDER BY rowid",
        ))?;
        let mut statement = reader.sql(reader.connection.prepare("SELECT * FROM trial ORDER BY sequence"))?;
        let mut rows = reader.sql(statement.query([]))?;
        let mut trials = Vec::new();
        while let Some(row) = reader.sql(rows.next())? {
            let sequence: u32 = reader.column(row, "sequence")?;
            let exit: Option<Exit> = reader.optional_json_column(row, "exit")?;
            let observation = match exit {
                None => None,
                Some(exit) => {
                    let mut of_trial = Vec::new();
                    let mut thread_rows = reader.sql(threads.query([sequence]))?;
                    while let Some(thread) = reader.sql(thread_rows.next())? {
                        of_trial.push(thread_in(reader, thread)?);
                    }
                    Some(observation_in(reader, row, exit, of_trial)?)
                }
            };
            let status: String = reader.column(row, "status")?;
            trials.push(Self {
                sequence,
                block: reader.column(row, "block")?,
                warmup: reader.column(row, "warmup")?,
                subject: reader.column(row, "subject")?,
                threads: reader.column(row, "threads")?,
                placement: reader.column(row, "placement")?,
                status: reader.json(&to_json(&status), "status")?,
                cause: reader.column(row, "cause")?,
                time_s: reader.optional_seconds(row, "time_s")?,
                started_unix_s: reader.seconds(row, "started_unix_s")?,
                ran_s: reader.optional_seconds(row, "wall_s")?,
                intended_cpus: reader.optional_json_column(row, "intended_cpus")?,
                observation,
                output_tail: reader.column(row, "output_tail")?,
            });
        }
        Ok(trials)
    }

    /// The tables were the same, with columns for what simulations showed.
    fn read_older(reader: &Reader) -> Result<Vec<Self>, JournalError> {
        Self::read_all(reader)
    }
}

fn observation_in(
    reader: &Reader,
    row: &rusqlite::Row,
    exit: Exit,
    threads: Vec<ThreadObservation>,
) -> Result<Observation, JournalError> {
    Ok(Observation {
        exit,
        wall_s: reader.seconds(row, "wall_s")?,
        user_s: reader.seconds(row, "user_s")?,
        system_s: reader.seconds(row, "system_s")?,
        max_rss_bytes: reader.count(row, "max_rss_bytes")?,
        voluntary_switches: reader.count(row, "voluntary_switches")?,
        involuntary_switches: reader.count(row, "involuntary_switches")?,
        migrations: reader.optional_count(row, "migrations")?,
        minor_faults: reader.count(row, "minor_faults")?,
        major_faults: reader.count(row, "major_faults")?,
        counters: reader.json_column(row, "counters")?,
        threads,
        leftovers: reader.column(row, "leftovers")?,
        notes: reader.json_column(row, "notes")?,
    })
}

fn thread_in(reader: &Reader, row: &rusqlite::Row) -> Result<ThreadObservation, JournalError> {
    let cpus = |text: String| -> Result<CpuSet, JournalError> {
        text.parse().map_err(|error| reader.damaged(format!("{error}")))
    };
    let intended: Option<String> = reader.column(row, "intended_cpus")?;
    Ok(ThreadObservation {
        process: reader.column(row, "process")?,
        exec: reader.column(row, "exec")?,
        thread: reader.column(row, "thread")?,
        tid: reader.column(row, "tid")?,
        intended_cpus: intended.map(cpus).transpose()?,
        actual_cpus: cpus(reader.column(row, "actual_cpus")?)?,
        last_cpu: reader.column::<Option<u32>>(row, "last_cpu")?.map(CpuId),
        migrations: reader.optional_count(row, "migrations")?,
    })
}
