//! Energy that the machine has used, where its processors count it (`/sys/class/powercap`).

use super::read_word;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel keeps counters of energy.
const ZONES: &str = "/sys/class/powercap";

/// What each package has counted, in microjoules; packages are all that is on them, whoever uses it.
#[derive(Clone, Debug, PartialEq)]
pub struct EnergyReading(Vec<Zone>);

#[derive(Clone, Debug, PartialEq)]
struct Zone {
    folder: PathBuf,
    used_uj: u64,
    /// The counter begins anew after so much.
    most_uj: u64,
}

impl EnergyReading {
    /// What the counters say now; none where there are none, or only a privileged user may read them.
    pub fn now() -> Option<Self> {
        Self::of(Path::new(ZONES))
    }

    fn of(zones: &Path) -> Option<Self> {
        // `intel-rapl:0` is a package, `intel-rapl:0:0` a part of it.
        let is_package = |name: &str| name.split(':').count() == 2;
        let folders = fs::read_dir(zones).ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let packages =
            folders.filter(|folder| folder.file_name().and_then(|name| name.to_str()).is_some_and(is_package));
        // The platform as a whole, where it is counted, has the packages in it; the same package may be counted by two drivers.
        let of_package = |folder: PathBuf| {
            let name = read_word(folder.join("name")).filter(|name| name.starts_with("package"))?;
            let number = |file: &str| read_word(folder.join(file))?.parse().ok();
            Some((
                name,
                Zone { used_uj: number("energy_uj")?, most_uj: number("max_energy_range_uj")?, folder: folder.clone() },
            ))
        };
        let mut zones: Vec<(String, Zone)> = packages.filter_map(of_package).collect();
        zones.sort_by(|a, b| (&a.0, &a.1.folder).cmp(&(&b.0, &b.1.folder)));
        zones.dedup_by(|a, b| a.0 == b.0);
        (!zones.is_empty()).then(|| Self(zones.into_iter().map(|(_, zone)| zone).collect()))
    }

    /// The energy used since `before`, in joules; none where other counters are there now.
    pub fn joules_since(&self, before: &Self) -> Option<f64> {
        let is_same = self.0.iter().map(|zone| &zone.folder).eq(before.0.iter().map(|zone| &zone.folder));
        let used_uj = |(now, then): (&Zone, &Zone)| match now.used_uj.checked_sub(then.used_uj) {
            Some(used_uj) => used_uj,
            None => (now.most_uj.saturating_sub(then.used_uj)).saturating_add(now.used_uj),
        };
        is_same.then(|| self.0.iter().zip(&before.0).map(used_uj).sum::<u64>() as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_summed_each_once_and_a_counter_may_begin_anew() {
        let folder = tempfile::tempdir().unwrap();
        let zone = |name: &str, label: &str, used: u64| {
            let zone = folder.path().join(name);
            fs::create_dir_all(&zone).unwrap();
            fs::write(zone.join("name"), format!("{label}\n")).unwrap();
            fs::write(zone.join("energy_uj"), format!("{used}\n")).unwrap();
            fs::write(zone.join("max_energy_range_uj"), "10000000\n").unwrap();
        };
        assert_eq!(EnergyReading::of(folder.path()), None);
        let all = |first, second| {
            zone("intel-rapl:0", "package-0", first);
            zone("intel-rapl-mmio:0", "package-0", first);
            zone("intel-rapl:0:0", "core", 7);
            zone("intel-rapl:1", "package-1", second);
            zone("intel-rapl:2", "psys", first + second);
            EnergyReading::of(folder.path()).unwrap()
        };
        let before = all(1_000_000, 9_000_000);
        let after = all(1_500_000, 500_000);
        assert_eq!(after.joules_since(&before), Some(0.5 + 1.5));
        zone("intel-rapl:3", "package-2", 1);
        assert_eq!(EnergyReading::of(folder.path()).unwrap().joules_since(&before), None);
    }
}
