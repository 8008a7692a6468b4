//! Journals of versions 1 and 2: one kind of plan and one kind of trial for whatever was studied.

use super::begin;
use crate::kind::Kind;
use crate::record::Record;
use crate::row::{Row, to_json};
use rusqlite::{Connection, params};
use serde_json::Value;

/// The kind of study that a plan of theirs is, by what its subjects and its stop rule are.
pub(super) fn kind_of_plan(plan: &Value) -> &'static str {
    let subjects = plan["subjects"].as_array().map_or(&[][..], Vec::as_slice);
    let worlds = || subjects.iter().map(|subject| &subject["simulation"]).filter(|simulation| !simulation.is_null());
    if worlds().any(|simulation| simulation["world"].get("kernel").is_some()) {
        "replay"
    } else if worlds().next().is_some() {
        "simulation"
    } else if plan["stop"]["rule"] == "best" {
        "race"
    } else {
        "comparison"
    }
}

/// Writes all of an older journal anew, in the tables of this version.
pub(super) fn upgrade<K: Kind>(connection: &mut Connection, record: &Record<K>) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch("DROP TABLE thread; DROP TABLE trial; DROP TABLE session; DROP TABLE study;")?;
    begin(&transaction, &record.plan, &record.machine, &record.host)?;
    transaction.execute("UPDATE study SET ending = ?1", [record.ending.map(|ending| to_json(&ending))])?;
    for session in &record.sessions {
        transaction.execute(
            "INSERT INTO session (command_line, before, after) VALUES (?1, ?2, ?3)",
            params![to_json(&session.command_line), to_json(&session.before), session.after.as_ref().map(to_json)],
        )?;
    }
    record.trials.iter().try_for_each(|trial| trial.insert(&transaction))?;
    transaction.commit()
}
