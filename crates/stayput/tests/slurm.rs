//! The cluster that tests start for themselves is a real one, and is gone afterwards.

mod cluster;

use cluster::{Cluster, NODES, lacking, wait_until};
use std::collections::BTreeSet;
use std::fs;

/// Submits a script that runs as an array, a task on a node of its own; gives its job's id.
fn submit(cluster: &Cluster, array: &str, script: &str) -> String {
    let wrapped = format!("--wrap={script}");
    let array = format!("--array={array}");
    let arguments = ["--parsable", "--exclusive", "--output=/dev/null", "--no-requeue", &array, &wrapped];
    let id = cluster.said("sbatch", &arguments);
    assert!(!id.trim().is_empty(), "sbatch refuses {script}");
    id.trim().to_owned()
}

#[test]
fn a_cluster_runs_arrays_on_every_node_and_leaves_nothing() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let cluster = Cluster::start();
    let results = cluster.folder().join("results");
    fs::create_dir(&results).unwrap();
    let folder = results.display();

    // Each task waits for all three, so that none of the nodes can have run two of them.
    submit(
        &cluster,
        "0-2",
        &format!(
            "touch {folder}/begun.$SLURM_ARRAY_TASK_ID
             until [ $(ls {folder} | grep -c begun) = 3 ]; do sleep 0.05; done
             echo $SLURMD_NODENAME > {folder}/part.$SLURM_ARRAY_TASK_ID
             mv {folder}/part.$SLURM_ARRAY_TASK_ID {folder}/whole.$SLURM_ARRAY_TASK_ID"
        ),
    );
    let node_of = |task: u32| fs::read_to_string(results.join(format!("whole.{task}"))).ok();
    wait_until("three tasks end", || (0..3).all(|task| node_of(task).is_some()));
    let nodes: BTreeSet<String> = (0..3).filter_map(node_of).map(|node| node.trim().to_owned()).collect();
    assert_eq!(nodes, NODES.map(str::to_owned).into());
    wait_until("the queue empties", || cluster.said("squeue", &["--noheader"]).is_empty());

    submit(&cluster, "0-0", &format!("sleep 1000 & touch {folder}/runs; wait"));
    wait_until("the job runs", || results.join("runs").exists());

    // A job that still runs, with a child, ends with the cluster, and so does its folder.
    let (folder, processes) = (cluster.folder().to_owned(), cluster.processes());
    assert!(processes.len() > NODES.len() + 1, "daemons and the job: {processes:?}");
    drop(cluster);
    assert!(!folder.exists());
    let left = |pid: &i32| {
        let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.contains(&folder.display().to_string())
    };
    assert_eq!(processes.into_iter().filter(left).count(), 0);
}
