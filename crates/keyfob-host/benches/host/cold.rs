//! A lookup that starts a real process, against the bare run of the same invocation.

use std::hint::black_box;

use keyfob_api::FeatureGates;
use keyfob_config::Config;
use keyfob_exec::{ProcessRunner, Runner as _};
use keyfob_host::Host;
use keyfob_testkit::MapEnvironment;

use crate::{
    hosts::{build_plugin, provider, pull, runtime},
    median, row, seconds,
};

const ROUNDS: usize = 1_000;

pub(crate) fn measure() {
    let folder = tempfile::tempdir().expect("a folder");
    build_plugin(folder.path(), "static");
    let runner = ProcessRunner::new(MapEnvironment::default());
    let config = Config::new([provider("static", vec!["registry.example".into()])]);
    let config = config.validate(FeatureGates::default()).expect("a valid configuration");
    let host = Host::builder(config, folder.path()).runner(runner.clone()).build();
    let (host, runtime) = (host.expect("a good configuration"), runtime());
    let pull = pull("registry.example/team/app:v1");
    let invocation = host.invocation("static", &pull).expect("there is one").expect("it is there");
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(seconds(|| {
            let ran = runtime.block_on(runner.run(&invocation)).expect("the plugin runs");
            assert!(ran.success().is_ok());
        }));
        ours.push(seconds(|| {
            let answer = runtime.block_on(host.credentials(&pull));
            assert_eq!(answer.credentials.len(), 1, "{answer:?}");
            black_box(answer);
        }));
    }
    assert!(host.cached().is_empty(), "not every run was a run");
    let (bare, ours) = (median(bare), median(ours));
    row("bare run of a plugin", &format!("{:.0} µs", bare * 1e6), Some(1.0), "");
    row("cold lookup, same plugin", &format!("{:.0} µs", ours * 1e6), Some(ours / bare), "");
}
