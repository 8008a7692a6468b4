#[test]
fn golden() {
    for f in std::fs::read_dir("tests/journals").unwrap() {
        let path = f.unwrap().path();
        if path.extension().is_none_or(|e| e != "stayput") { continue; }
        let study = stayput_report::Study::read(&path).unwrap();
        if let Some(a) = study.cells() {
            for v in stayput_report::sentences::verdicts(a) {
                if v.contains("busy") { println!("{}: {v}", path.display()); }
            }
        }
    }
}
