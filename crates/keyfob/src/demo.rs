//! `keyfob demo`: a host with real plugins, on this machine, with nothing to install.
//!
//! - `stage`: a temporary plugin directory and configuration; the plugins are links to this very program.
//! - `plugin`: what the plugins do.
//! - `story`: what is told, and whether every step did what it should.

mod plugin;
mod stage;
mod story;

use std::time::Duration;

use keyfob_api::CacheKeyType;
use keyfob_host::{Answer, Chain, Config, FeatureGates, Host, HostOptions, ProviderOutcome, Pull};

pub(crate) use self::plugin::{Manner, run as plugin};
use self::{
    stage::{IMAGES, REGISTRY, SECRETS, STUCK, Stage},
    story::Story,
};
use crate::Outcome;

const APP: &str = "registry.example:5000/team/app:v1";
const OTHER: &str = "registry.example:5000/team/other:v2";
const WEB: &str = "eu.images.example/web";

pub(crate) fn run() -> Outcome {
    let mut story = Story::default();
    match Stage::build() {
        Err(error) => story.step("a temporary directory with plugins", false, &error.to_string()),
        Ok(stage) => {
            play(&stage, &mut story);
            if let Err(error) = stage.close() {
                story.step("the temporary directory is removed", false, &error.to_string());
            }
        }
    }
    story.end()
}

fn play(stage: &Stage, story: &mut Story) {
    story.heading("A configuration is read and judged as a kubelet does it");
    let Some(config) = read(stage, story) else { return };
    let host = Host::builder(config.clone(), stage.plugins()).options(options()).build();
    let host = match host {
        Ok(host) => host,
        Err(error) => return story.step("its plugins are found", false, &error.to_string()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(ask(&host, config, story)),
        Err(error) => story.step("a runtime for plugins", false, &error.to_string()),
    }
}

/// A kubelet waits a minute for each; the one that hangs is not worth that here.
fn options() -> HostOptions {
    let mut options = HostOptions::default();
    options.timeouts.insert(STUCK.to_owned(), Duration::from_millis(300));
    options
}

fn read(stage: &Stage, story: &mut Story) -> Option<Config> {
    let read = Config::read(stage.config());
    let judged = read.map_err(|error| error.to_string()).and_then(|config| {
        let valid = config.validate(FeatureGates::default()).map_err(|error| error.to_string());
        valid.map(|()| config)
    });
    match judged {
        Err(error) => {
            story.step("the configuration is valid", false, &error);
            None
        }
        Ok(config) => {
            let names: Vec<&str> = config.providers.iter().map(|each| each.name.as_str()).collect();
            let told = format!("providers {}", names.join(", "));
            story.step("the configuration is valid", names.len() == 4, &told);
            Some(config)
        }
    }
}

async fn ask(host: &Host, config: Config, story: &mut Story) {
    story.heading("Images are asked about: plugins run once, then their answers are kept");
    for (image, expected) in [
        (APP, Expected::Ran(REGISTRY)),
        (APP, Expected::Cached(REGISTRY, CacheKeyType::Registry)),
        (OTHER, Expected::Cached(REGISTRY, CacheKeyType::Registry)),
        (WEB, Expected::Ran(IMAGES)),
        (WEB, Expected::Cached(IMAGES, CacheKeyType::Image)),
        ("eu.images.example/shop", Expected::Ran(IMAGES)),
    ] {
        story.asked(host, image, expected).await;
    }

    story.heading("An image that no provider is for");
    story.unmatched(host, &config, "registry.example/team/app").await;

    story.heading("A plugin that fails or hangs harms no other");
    story.harmed_beside(host, "eu.images.example/secret/app", SECRETS).await;
    story.harmed_beside(host, "eu.images.example/slow/app", STUCK).await;

    story.heading("The configuration is replaced: providers that stay the same keep their answers");
    reload(host, config, story);
    story.asked(host, APP, Expected::Cached(REGISTRY, CacheKeyType::Registry)).await;
    story.asked(host, WEB, Expected::Ran(IMAGES)).await;
}

/// Drops the one that hangs and changes another.
fn reload(host: &Host, mut config: Config, story: &mut Story) {
    config.providers.retain(|provider| provider.name != STUCK);
    for provider in config.providers.iter_mut().filter(|provider| provider.name == IMAGES) {
        provider.env.clear();
        provider.match_images.push("images.example".to_owned());
    }
    match host.reload(config) {
        Err(error) => story.step("a new configuration", false, &error.to_string()),
        Ok(changed) => {
            let as_expected = changed.kept == [REGISTRY, SECRETS]
                && changed.started == [IMAGES]
                && changed.removed == [STUCK];
            let told = format!(
                "kept {}; started anew {}; gone {}",
                changed.kept.join(", "),
                changed.started.join(", "),
                changed.removed.join(", ")
            );
            story.step("a new configuration, between two pulls", as_expected, &told);
        }
    }
}

/// Where the one credential for an image should come from.
#[derive(Debug, Clone, Copy)]
enum Expected {
    Ran(&'static str),
    Cached(&'static str, CacheKeyType),
}

impl Expected {
    fn is(self, provider: &str, outcome: &ProviderOutcome) -> bool {
        match (self, outcome) {
            (Self::Ran(name), ProviderOutcome::Ran { .. }) => name == provider,
            (Self::Cached(name, expected), ProviderOutcome::Cached { scope, .. }) => {
                name == provider && *scope == expected
            }
            _ => false,
        }
    }
}

/// What the providers did for a pull.
async fn answer(host: &Host, image: &str) -> Result<Answer, String> {
    let pull = Pull::parse(image).map_err(|error| error.to_string())?;
    Ok(host.credentials(&pull).await)
}

fn told(outcome: &ProviderOutcome) -> String {
    match outcome {
        ProviderOutcome::Ran { took, .. } => {
            format!("ran for {:.1} ms", took.as_secs_f64() * 1e3)
        }
        ProviderOutcome::Cached { scope, .. } => {
            format!("from the cache, kept per {}", scope.as_str())
        }
        ProviderOutcome::Skipped(why) => why.to_string(),
        ProviderOutcome::Failed(error) => format!("failed: {}", Chain(&**error)),
        _ => "something else".to_owned(),
    }
}
