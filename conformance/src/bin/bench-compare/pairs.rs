//! Lookups, warm and cold, by both in turn.

use std::{hint::black_box, io, path::Path, time::Instant};

use keyfob_api::FeatureGates;
use keyfob_config::Config;
use keyfob_conformance::{Judge as _, Oracle};
use keyfob_host::{Host, Pull};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    hosts::{
        ECR, Plugins, account, build_plugin, look_up, mixed, own_host, provider, pull, runtime,
        ten_thousand, three_clouds, warm_up,
    },
    page::{Row, Unit},
};

/// One thing that both do.
struct Pair {
    what: &'static str,
    target: &'static str,
    ours: Box<dyn Fn()>,
    upstream: Oracle,
    /// What the oracle looks up; how often is filled in.
    question: Value,
    rounds: u32,
    /// How often it is repeated in a round, by us and by upstream: for a few milliseconds, so that most rounds are not
    /// interrupted.
    repeats: [u32; 2],
}

pub(crate) fn measure(oracle: &Path) -> io::Result<Vec<Row>> {
    let plugins = Plugins::new();
    let folder = tempfile::tempdir()?;
    let mut pairs = [
        warm(oracle, &plugins)?,
        warm_with_parse(oracle, &plugins)?,
        large(oracle, &plugins, "warm lookup, 10,000 patterns: hosts", own_host)?,
        large(oracle, &plugins, "warm lookup, 10,000 patterns: ECR accounts", account)?,
        large(oracle, &plugins, "warm lookup, 10,000 patterns: a mix", mixed)?,
        cold(oracle, &folder)?,
    ];
    pairs.iter_mut().map(Pair::measure).collect()
}

impl Pair {
    fn measure(&mut self) -> io::Result<Row> {
        let (mut ours, mut upstream) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            ours.push(self.our_turn());
            upstream.push(self.their_turn()?);
        }
        let (upstream, ours) = (median(upstream), median(ours));
        Ok(Row { what: self.what, upstream, ours, unit: Unit::Seconds, target: self.target })
    }

    /// Seconds for one.
    fn our_turn(&self) -> f64 {
        let started = Instant::now();
        (0..self.repeats[0]).for_each(|_| (self.ours)());
        started.elapsed().as_secs_f64() / f64::from(self.repeats[0])
    }

    fn their_turn(&mut self) -> io::Result<f64> {
        let mut question = self.question.clone();
        question["repeats"] = json!(self.repeats[1]);
        let answer = self.upstream.ask_about("bench", &json!({ "look_up": question }))?;
        assert_eq!(answer["credentials"], 1, "{}: {answer}", self.what);
        Ok(answer["nanos"].as_f64().expect("a time") / 1e9 / f64::from(self.repeats[1]))
    }
}

fn warm(oracle: &Path, plugins: &Plugins) -> io::Result<Pair> {
    let image = format!("{ECR}/team/app:v1");
    let host = plugins.host(three_clouds(), "Registry", &[ECR], "secret");
    Ok(Pair {
        what: "warm lookup, 3 providers × 12 patterns",
        target: "≤ 1/50",
        ours: lookup(host, &image),
        upstream: upstream(oracle, &three_clouds(), ECR)?,
        question: json!({ "image": image }),
        rounds: 201,
        repeats: [2_000, 50],
    })
}

fn warm_with_parse(oracle: &Path, plugins: &Plugins) -> io::Result<Pair> {
    let pair = warm(oracle, plugins)?;
    let image = format!("{ECR}/team/app:v1");
    let host = plugins.host(three_clouds(), "Registry", &[ECR], "secret");
    warm_up(&host, &pull(&image));
    Ok(Pair {
        what: "the same with reading the image's name",
        target: "",
        question: json!({ "image": image, "parse": true }),
        ours: Box::new(move || drop(black_box(look_up(&host, &pull(black_box(&image)))))),
        ..pair
    })
}

fn large(
    oracle: &Path,
    plugins: &Plugins,
    what: &'static str,
    pattern: fn(usize) -> String,
) -> io::Result<Pair> {
    // One whose pattern, of whatever sort, is the host itself.
    let (patterns, key) = (ten_thousand(pattern), pattern(5000));
    let image = format!("{key}/team/app:v1");
    let host = plugins.host(patterns.clone(), "Registry", &[&key], "secret");
    Ok(Pair {
        what,
        target: "≤ 1/1000",
        ours: lookup(host, &image),
        upstream: upstream(oracle, &patterns, &key)?,
        question: json!({ "image": image }),
        rounds: 41,
        repeats: [2_000, 1],
    })
}

fn cold(oracle: &Path, folder: &TempDir) -> io::Result<Pair> {
    build_plugin(folder.path(), "static");
    let patterns = vec!["registry.example".to_owned()];
    let mut upstream = Oracle::start(oracle)?;
    let program = folder.path().join("static");
    let for_upstream = tempfile::tempdir_in(folder)?.keep();
    let question = json!({ "folder": for_upstream, "patterns": [patterns], "plugin": program });
    assert_eq!(upstream.ask_about("bench", &json!({ "set_up": question }))?, json!({}));
    let config = Config::new([provider("static", patterns)]);
    let config = config.validate(FeatureGates::default()).expect("a valid configuration");
    let host = Host::builder(config, folder.path()).build().expect("a good configuration");
    let image = "registry.example/team/app:v1";
    let (runtime, pull) = (runtime(), pull(image));
    Ok(Pair {
        what: "cold lookup: a plugin is run",
        target: "≤ 1.00",
        ours: Box::new(move || {
            let answer = runtime.block_on(host.credentials(&pull));
            assert_eq!(answer.credentials.len(), 1, "{answer:?}");
        }),
        upstream,
        question: json!({ "image": image }),
        rounds: 1_000,
        repeats: [1, 1],
    })
}

fn lookup(host: Host, image: &str) -> Box<dyn Fn()> {
    let pull: Pull = pull(image);
    warm_up(&host, &pull);
    Box::new(move || drop(black_box(look_up(&host, black_box(&pull)))))
}

fn upstream(oracle: &Path, patterns: &[Vec<String>], key: &str) -> io::Result<Oracle> {
    let answer = json!({ "cacheKeyType": "Registry", "keys": [key], "password": "secret" });
    answering(oracle, patterns, &answer)
}

/// An oracle whose providers have these patterns, and whatever they are asked, give this answer.
pub(crate) fn answering(
    oracle: &Path,
    patterns: &[Vec<String>],
    answer: &Value,
) -> io::Result<Oracle> {
    let mut oracle = Oracle::start(oracle)?;
    // Plugins that are no processes are looked for once.
    let folder = tempfile::tempdir()?;
    let question = json!({ "folder": folder.path(), "patterns": patterns, "answer": answer });
    assert_eq!(oracle.ask_about("bench", &json!({ "set_up": question }))?, json!({}));
    Ok(oracle)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
