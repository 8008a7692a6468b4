//! Kinds of study: what each has of its own, and what journals and sessions need to know of all.

use crate::identity::Change;
use crate::plan::PlanError;
use crate::redaction::Redaction;
use crate::row::Row;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;

/// A kind of study, told from others by the type of its plan. Two plans are the same study when they are equal.
pub trait Kind: Clone + Debug + PartialEq + Serialize + DeserializeOwned {
    /// The kind as journals name it.
    const NAME: &'static str;

    /// What its trials are: executions of programs, or samples of what is simulated or replayed.
    type Trial: Row;

    /// Whether the plan can be carried out.
    ///
    /// # Errors
    /// The first thing that is wrong.
    fn check(&self) -> Result<(), PlanError>;

    /// The plan that a journal of version 1 or 2 holds.
    ///
    /// # Errors
    /// When it is none of this kind.
    fn from_older(plan: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(plan)
    }

    /// `asked` without differences from this plan that don't make it another study.
    fn aligned(&self, asked: &Self) -> Self {
        asked.clone()
    }

    /// What journals leave out.
    fn redaction(&self) -> Redaction {
        Redaction::default()
    }

    /// Whether the plan says of every program that it runs what that was, so that another one would be noticed.
    fn keeps_identity(&self) -> bool {
        false
    }

    /// What is different about the programs that `asked` runs, too.
    fn changes(&self, _asked: &Self) -> Vec<Change> {
        Vec::new()
    }

    /// The plan by which a study of this plan goes on after `trials` when `asked` is asked for: what only says how long to go on may
    /// change, and where the kind allows it, there may be more cells.
    ///
    /// # Errors
    /// How `asked` is another study, a line for each difference.
    fn extended_by(&self, asked: &Self, _trials: &[Self::Trial]) -> Result<Self, Vec<String>> {
        let differences = self.differences(asked);
        if differences.is_empty() { Ok(self.clone()) } else { Err(differences) }
    }

    /// How `asked` differs from this plan, a line each; empty when they are the same study.
    fn differences(&self, asked: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        match (serde_json::to_value(self), serde_json::to_value(self.aligned(asked))) {
            (Ok(have), Ok(want)) => compare("", &have, &want, &mut lines),
            (Err(error), _) | (_, Err(error)) => lines.push(error.to_string()),
        }
        lines
    }
}

/// Appends a line for each place at or below `path` where the two plans differ.
fn compare(path: &str, have: &Value, want: &Value, lines: &mut Vec<String>) {
    let inner = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => {
            for key in have.keys().chain(want.keys().filter(|key| !have.contains_key(*key))) {
                let absent = &Value::Null;
                compare(&inner(key), have.get(key).unwrap_or(absent), want.get(key).unwrap_or(absent), lines);
            }
        }
        // Lists of plain values read better whole.
        (Value::Array(have), Value::Array(want)) if have.len() == want.len() && have.iter().any(Value::is_object) => {
            for (position, (have, want)) in have.iter().zip(want).enumerate() {
                compare(&inner(&(position + 1).to_string()), have, want, lines);
            }
        }
        _ if have == want => {}
        (Value::Array(have), Value::Array(want)) if have.iter().chain(want).all(|item| item["name"].is_string()) => {
            let names = |items: &[Value]| Value::from_iter(items.iter().map(|item| item["name"].clone()));
            lines.push(format!("{path}: the journal has {}, you ask for {}", names(have), names(want)));
        }
        _ => lines.push(format!("{path}: the journal has {have}, you ask for {want}")),
    }
}
