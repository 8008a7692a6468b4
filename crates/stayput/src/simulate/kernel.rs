//! Which kernel's own scheduler is simulated.

use crate::UsageError;
use machine::linux::{scheduler, system};
use sim::{CgroupMode, KernelParameters, Parameters, ParseReleaseError, Policy, Release};
use std::str::FromStr;
use strum::VariantArray;

/// The word for the running kernel.
const HERE: &str = "here";

/// A kernel by its release, or the running one.
#[derive(Clone, Copy)]
pub(crate) enum Kernel {
    Release(Release),
    Here,
}

impl FromStr for Kernel {
    type Err = ParseReleaseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == HERE { Ok(Self::Here) } else { text.parse().map(Self::Release) }
    }
}

/// What can be named.
pub(crate) fn names() -> Vec<String> {
    Release::VARIANTS.iter().map(|release| release.name()).chain([HERE]).map(str::to_owned).collect()
}

impl Kernel {
    /// The numbers of its scheduler.
    fn parameters(self) -> anyhow::Result<KernelParameters> {
        match self {
            Self::Release(release) => Ok(KernelParameters::of(release)),
            Self::Here => {
                let release = system::kernel_release().unwrap_or_default();
                let modelled = Release::modelling(&release).ok_or_else(|| {
                    UsageError::from(format!("the scheduler of the running kernel ({release}) is not modelled"))
                })?;
                told(KernelParameters::of(modelled), &scheduler::fair())
            }
        }
    }
}

/// The numbers of a release, with what the running kernel tells in their place.
///
/// # Errors
/// When it is in a mode that is not modelled.
fn told(of_release: KernelParameters, fair: &scheduler::FairScheduler) -> anyhow::Result<KernelParameters> {
    let on = |feature: &str, otherwise: bool| fair.feature(feature).unwrap_or(otherwise);
    let cgroup_mode = match fair.cgroup_mode.as_deref().map(|mode| mode.parse::<CgroupMode>().map_err(|_| mode)) {
        None => of_release.cgroup_mode,
        Some(Ok(mode)) => mode,
        Some(Err(mode)) => {
            return Err(UsageError::from(format!(
                "the running kernel's cgroup_mode is {mode}, which is not modelled: name a kernel, as in --kernel {}",
                of_release.release
            )));
        }
    };
    Ok(KernelParameters {
        cgroup_mode,
        base_slice_ns: fair.base_slice_ns.or(of_release.base_slice_ns),
        migration_cost_ns: fair.migration_cost_ns.unwrap_or(of_release.migration_cost_ns),
        nr_migrate: fair.nr_migrate.unwrap_or(of_release.nr_migrate),
        hrtick: on("HRTICK", of_release.hrtick),
        run_to_parity: on("RUN_TO_PARITY", of_release.run_to_parity),
        preempt_short: on("PREEMPT_SHORT", of_release.preempt_short),
        place_lag: on("PLACE_LAG", of_release.place_lag),
        place_deadline_initial: on("PLACE_DEADLINE_INITIAL", of_release.place_deadline_initial),
        delay_dequeue: on("DELAY_DEQUEUE", of_release.delay_dequeue),
        ..of_release
    })
}

/// `parameters` with the kernel that is asked for, or the newest one where none is and a kernel's own scheduler is simulated.
pub(crate) fn with_kernel(
    parameters: Parameters,
    asked: Option<Kernel>,
    policies: &[Policy],
) -> anyhow::Result<Parameters> {
    if !policies.iter().copied().any(Policy::is_kernels) {
        return match asked {
            None => Ok(Parameters { kernel: None, ..parameters }),
            Some(_) => Err(UsageError::from(
                "--kernel changes nothing under these policies, which no kernel has; add eevdf to --policy",
            )),
        };
    }
    let kernel = match asked {
        Some(kernel) => kernel.parameters()?,
        None => parameters.kernel.clone().unwrap_or_default(),
    };
    Ok(Parameters { kernel: Some(kernel), ..parameters })
}
