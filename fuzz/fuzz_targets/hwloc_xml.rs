//! An XML file is refused, or holds a machine that comes back the same from its JSON, and with the same CPUs from the
//! XML that we write.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::{Machine, MachineError, Source};
use std::fs;
use std::sync::LazyLock;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

fuzz_target!(|content: &[u8]| {
    let Ok(machine) = read(content) else { return };
    assert!(!machine.to_text(None).is_empty());
    let json = serde_json::to_string(&machine).expect("a machine has a JSON form");
    assert_eq!(serde_json::from_str::<Machine>(&json).expect("our own JSON is read"), machine);
    let ours = read(machine.to_xml().as_bytes()).expect("our own XML is read");
    assert_eq!(ours.usable_cpus(), machine.usable_cpus());
    assert_eq!(ours.pus().len(), machine.pus().len());
});

fn read(content: &[u8]) -> Result<Machine, MachineError> {
    let path = FOLDER.path().join("m.xml");
    fs::write(&path, content).expect("the temporary folder can be written");
    Machine::read(&Source::Xml(path))
}
