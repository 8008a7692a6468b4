//! Journals of versions 1 and 2: one kind of plan and one kind of trial for whatever was studied.

use super::{begin, insert_session, write_ending};
use crate::host::PastSession;
use crate::kind::Kind;
use crate::record::Record;
use crate::row::Row;
use rusqlite::Connection;
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
    write_ending(&transaction, record.ending)?;
    for PastSession { command_line, before, after } in &record.sessions {
        insert_session(&transaction, command_line, before, after.as_ref())?;
    }
    record.trials.iter().try_for_each(|trial| trial.insert(&transaction))?;
    transaction.commit()
}
