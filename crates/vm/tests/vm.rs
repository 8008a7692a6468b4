//! What is said of virtual machines before any is started.

use machine::Kind;
use std::fs;
use std::time::Duration;
use vm::{Exit, Kernel, Message, Step, StepResult, Topology};

#[test]
fn topologies_are_the_trees_that_their_names_say() {
    let counts = |name: &str| {
        let topology: Topology = name.parse().unwrap();
        let machine = topology.machine().unwrap();
        assert_eq!(machine.pus().len(), topology.cpus() as usize);
        assert_eq!(topology.to_string(), name);
        [Kind::Package, Kind::Die, Kind::Cache(3), Kind::Cache(2), Kind::Core, Kind::Pu].map(|kind| machine.count(kind))
    };
    assert_eq!(counts("2x4"), [2, 2, 2, 8, 8, 8]);
    assert_eq!(counts("1x4x2"), [1, 1, 1, 4, 4, 8]);
    assert_eq!(counts("dies"), [1, 2, 2, 8, 8, 16]);
    assert_eq!(counts("nodes"), [2, 2, 2, 8, 8, 8]);
    assert_eq!(counts("8x8"), [8, 8, 8, 64, 64, 64]);
}

#[test]
fn what_is_no_topology_is_refused_with_what_would_be() {
    for text in ["", "4", "0x4", "2x", "2x4x2x1", "x", "-2x4", "999999999x999999999", "16x16", "two"] {
        let error = text.parse::<Topology>().unwrap_err().to_string();
        assert!(error.contains(&format!("`{text}`")) && error.contains("2x4"), "{error}");
    }
}

#[test]
fn a_kernel_is_known_by_its_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vmlinuz");
    // The boot header's magic at 0x202; at 0x20e where, from 0x200 on, its version stands.
    let mut image = vec![0; 0x400];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
    image[0x300..0x317].copy_from_slice(b"7.3.4-test (someone) #1\0"[..23].as_ref());
    fs::write(&path, &image).unwrap();
    let kernel = Kernel::at(&path).unwrap();
    assert_eq!((&*kernel.release, &kernel.vmlinuz, kernel.note), ("7.3.4-test", &path, None));

    let refusal = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = Kernel::at(&path).unwrap_err().to_string();
        assert!(error.contains("vmlinuz is no Linux kernel"), "{error}");
    };
    refusal(b"");
    refusal(b"\x7fELF");
    // Cut off in its header, and before the version that the header points to.
    refusal(&image[..0x208]);
    refusal(&image[..0x210]);
    image[0x20e..0x210].copy_from_slice(&u16::MAX.to_le_bytes());
    refusal(&image);
    fs::remove_file(&path).unwrap();
    assert!(Kernel::at(&path).unwrap_err().to_string().contains("No such file"));
}

#[test]
fn what_is_said_to_a_guest_and_by_it_is_understood() {
    let step = Step::shell("a", "echo \"$B\nc\"").within(Duration::from_millis(1500));
    let steps = [step, Step::run("e", ["f", "g h"])];
    assert_eq!(serde_json::from_str::<[Step; 2]>(&serde_json::to_string(&steps).unwrap()).unwrap(), steps);
    for exit in [Exit::Code(3), Exit::Signal(9), Exit::TimedOut, Exit::NotStarted("absent".into())] {
        let result =
            StepResult { name: "a".into(), exit, stdout: "b\n".into(), stderr: "\u{1b}".into(), seconds: 0.25 };
        let line = serde_json::to_string(&Message::Ended(result.clone())).unwrap();
        assert!(!line.contains('\n'), "a message is one line");
        assert_eq!(serde_json::from_str::<Message>(&line).unwrap(), Message::Ended(result));
    }
}
