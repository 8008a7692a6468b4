//! What is written in hwloc's XML format is read by hwloc's own `lstopo`, and comes back whole.

use stayput_machine::tree::Source;
use stayput_machine::{Machine, preset};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_machine_comes_back_from_lstopo_with_every_object_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("ours.xml"), folder.path().join("theirs.xml"));
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "xml"));
    let captures = files.map(|path| Machine::read(&Source::Xml(path)).unwrap());
    for machine in preset::names().map(|name| Machine::named(name).unwrap()).chain(captures) {
        fs::write(&ours, machine.to_xml()).unwrap();
        // What cgroups forbid is left out unless one asks for it.
        let mut lstopo = Command::new("lstopo");
        lstopo.args(["--disallowed", "--of", "xml", "--force", "-i"]).args([&ours, &theirs]);
        match lstopo.output() {
            Err(error) => {
                println!("skipped: no lstopo ({error}); Debian's package is called hwloc");
                return;
            }
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success() && said.is_empty(), "{}: {said}", machine.name());
            }
        }
        let back = Machine::read(&Source::Xml(theirs.clone())).unwrap();
        let text = |machine: &Machine| machine.to_text(None).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(text(&back), text(&machine), "{}", machine.name());
    }
}
