//! A real kubelet with containerd, beside a real API server: what users see on a node.
//!
//! `.ci/run node` builds the programs, sets `KEYFOB_NODE` to a directory with them and runs this in namespaces of its own; without
//! that variable nothing is run. Scenarios run one after another; several processes, each in namespaces of its own and with a cluster of
//! its own, share them. Arguments select those whose names contain one of them.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

mod accounts;
mod agent;
mod agreement;
mod api;
mod audience;
#[path = "../support/authority.rs"]
mod authority;
mod client;
mod cluster;
mod containerd;
mod daemon_set;
mod documented;
mod faults;
mod gates;
mod hosts;
mod identity;
mod image;
mod image_service;
mod load;
#[path = "../support/moto.rs"]
mod moto;
mod node;
mod parts;
mod pod;
mod process;
mod providers;
mod record_garbage;
mod record_kills;
mod record_procedure;
mod record_schedule;
mod records;
mod registry;
mod service;
mod shell;
mod start;
mod systemd;
mod teams;
#[path = "../support/token_issuer.rs"]
mod token_issuer;
mod wait;
mod world;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use parts::Parts;
use world::World;

/// A test with a name.
struct Scenario {
    name: &'static str,
    run: fn(&mut World),
}

macro_rules! scenarios {
    ($($module:ident::$name:ident,)*) => {
        &[$(Scenario { name: stringify!($name), run: $module::$name },)*]
    };
}

const SCENARIOS: &[Scenario] = scenarios! {
    providers::without_a_provider_the_pull_is_refused,
    providers::docker_config_gives_the_login_of_a_file,
    providers::exec_gives_the_login_of_a_docker_helper,
    providers::echo_gives_the_token_of_the_pod,
    providers::exchange_trades_the_token_of_the_pod,
    providers::ecr_gives_the_login_of_the_node,
    providers::ecr_gives_the_login_of_the_role_of_the_pod,
    providers::all_plugins_share_one_configuration,
    providers::why_a_plugin_failed_is_only_in_the_log,
    providers::a_kubelet_needs_both_flags,
    service::kubeadm_nodes_take_the_flags_from_the_file_of_their_packages,
    service::kubeadm_writes_the_flags_of_its_configuration,
    service::any_unit_takes_the_flags_from_a_drop_in,
    identity::a_node_gets_no_token_of_its_pod_without_our_role,
    identity::annotations_decide_whether_a_plugin_runs_and_what_it_reads,
    identity::a_pod_without_an_account_is_asked_about_without_a_token,
    identity::a_token_as_a_password_is_not_for_other_pods_of_its_account,
    identity::pods_of_an_account_share_a_login_and_accounts_share_none,
    identity::each_pod_has_a_login_of_its_own_if_logins_are_kept_by_token,
    accounts::an_answer_for_every_image_is_kept_for_each_account,
    accounts::an_account_that_is_gone_is_named_in_the_same_words,
    audience::the_webhook_works_beside_the_restriction_of_audiences,
    audience::the_webhook_replaces_the_restriction_of_audiences,
    audience::a_certificate_is_renewed_without_a_failed_token_request,
    records::each_policy_verifies_the_images_that_it_names,
    record_procedure::the_documented_order_lets_in_whom_the_image_was_pulled_for,
    record_procedure::beside_a_running_kubelet_the_wrong_pod_is_let_in,
    record_kills::a_kubelet_killed_during_a_pull_lets_nobody_in_without_proof,
    record_kills::a_keyfob_killed_during_a_pull_lets_nobody_in_without_proof,
    record_kills::a_pull_that_a_kubelet_did_not_finish_is_left_to_the_kubelet,
    record_garbage::prune_forgets_the_images_that_containerd_has_no_more,
    record_garbage::under_disk_pressure_the_kubelet_forgets_who_may_use_an_image,
    record_schedule::images_that_are_removed_for_their_age_keep_their_records,
    record_schedule::above_the_threshold_the_kubelet_forgets_images_that_it_leaves,
    agreement::get_prints_the_order_in_which_the_kubelet_tries_credentials,
    start::the_kubelet_starts_exactly_where_validate_exits_with_0,
    gates::gates_are_on_or_keep_the_kubelet_from_starting,
    client::exec_users_are_known_by_their_tokens_and_certificates,
    client::exec_logs_port_forward_and_watches_go_through_the_proxy,
    client::many_kubectls_at_once_log_in_once,
    client::a_revoked_token_is_replaced,
    client::a_new_certificate_is_presented_before_the_old_one_ends,
    load::a_hundred_pods_with_twenty_images_start_on_a_cold_node,
    agent::the_agent_serves_a_new_provider_without_a_kubelet_restart,
    agent::without_its_agent_the_relay_runs_the_plugin_or_refuses,
    agent::systemd_starts_the_agent_with_its_first_caller,
    agent::a_hardened_agent_that_hangs_is_started_again,
    agent::an_agent_with_a_broken_file_serves_once_that_is_corrected,
    daemon_set::a_pod_gets_from_the_daemon_set_what_its_own_identity_permits,
    daemon_set::a_rolling_update_of_the_daemon_set_fails_no_request,
    faults::a_pull_survives_a_killed_kubelet,
    faults::a_pull_survives_a_killed_containerd,
    faults::a_pull_survives_a_killed_registry,
    faults::a_pull_survives_a_killed_api_server,
    faults::a_pull_survives_a_killed_etcd,
};

fn main() -> ExitCode {
    let Some(parts) = std::env::var_os("KEYFOB_NODE") else {
        println!("KEYFOB_NODE is not set: NO real node was run");
        return ExitCode::SUCCESS;
    };
    let logs = PathBuf::from(std::env::var_os("KEYFOB_NODE_LOGS").unwrap());
    let filters: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_selected = |scenario: &&Scenario| {
        filters.is_empty() || filters.iter().any(|filter| scenario.name.contains(filter))
    };
    let selected: Vec<_> = SCENARIOS.iter().filter(is_selected).collect();
    assert!(!selected.is_empty(), "no scenario is named like {filters:?}");
    let mut claimed = selected.into_iter().filter(|scenario| claim(scenario, &logs)).peekable();
    if claimed.peek().is_none() {
        println!("other processes run all scenarios");
        return ExitCode::SUCCESS;
    }
    let cluster_logs = create_cluster_logs(&logs);
    let start = Instant::now();
    let mut world = World::start(Parts::new(PathBuf::from(parts)), &cluster_logs);
    println!("cluster ready in {:.1?}", start.elapsed());
    let verdicts: Vec<_> = claimed.map(|scenario| succeeds(scenario, &mut world, &logs)).collect();
    let passed = verdicts.iter().filter(|verdict| **verdict).count();
    println!("{passed} of {} scenarios passed in {:.1?}", verdicts.len(), start.elapsed());
    drop(world);
    if passed == verdicts.len() {
        fs::remove_dir_all(cluster_logs).unwrap();
        return ExitCode::SUCCESS;
    }
    println!("logs of the cluster: {}", cluster_logs.display());
    ExitCode::FAILURE
}

/// Whether no other process that keeps its logs in this directory runs the scenario.
fn claim(scenario: &Scenario, logs: &Path) -> bool {
    let claims = logs.join("claimed");
    fs::create_dir_all(&claims).unwrap();
    fs::create_dir(claims.join(scenario.name)).is_ok()
}

/// Creates a directory that no other process has.
fn create_cluster_logs(logs: &Path) -> PathBuf {
    let mut names = (1..).map(|number| logs.join(format!("cluster-{number}")));
    names.find(|path| fs::create_dir(path).is_ok()).unwrap()
}

fn succeeds(scenario: &Scenario, world: &mut World, logs: &Path) -> bool {
    println!("scenario {} ...", scenario.name);
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| {
        world.begin(scenario.name, logs);
        (scenario.run)(world);
    }));
    let (verdict, time) = (if result.is_ok() { "ok" } else { "FAILED" }, start.elapsed());
    println!("scenario {} ... {verdict} in {time:.1?}", scenario.name);
    if result.is_ok() {
        fs::remove_dir_all(&world.directory).unwrap();
    } else {
        collect(world);
        println!("logs of the scenario: {}", world.directory.display());
    }
    result.is_ok()
}

/// Adds to the logs of a failed scenario what the API server knows.
fn collect(world: &World) {
    for (file, path) in [("pods.json", "/api/v1/pods"), ("events.json", "/api/v1/events")] {
        let answer = world.cluster.api.text(path).unwrap_or_else(|refusal| refusal.message);
        fs::write(world.directory.join(file), answer).unwrap_or_default();
    }
}
