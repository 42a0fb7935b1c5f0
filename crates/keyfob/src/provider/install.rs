//! `keyfob provider install DIR`.

use std::{
    error::Error,
    io,
    path::{self, Path, PathBuf},
};

use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use keyfob_api::Chain;
use keyfob_config::Config;
use keyfob_control::rule::VERB;
use keyfob_providers::Provider;

use super::{
    config::{self, Audience, Choices, Named},
    config_file::{ConfigFileError, Plan, Verb, Wanted, also_configured},
    links::{Installing, Program, Way},
    relay::{self, RelayArgs},
};
use crate::{Outcome, Verdict, explain::command::quoted};

#[derive(Debug, Args)]
#[command(after_help = "Start the kubelet with --image-credential-provider-bin-dir=DIR and \
                  --image-credential-provider-config=FILE, where FILE is --config-file or holds what was printed.\n\
                  A file that is there is never overwritten: see --merge.\n\
                  Exit codes: 0 installed, or with --dry-run would be; 1 something is in the way; 2 the flags do not fit \
                  together; 4 the configuration could not be written.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct InstallArgs {
    /// The plugin directory; it is made if it is not there.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Which plugins, by the names of `keyfob provider list`.
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_values = clouds(),
        value_parser = PossibleValuesParser::new(names())
    )]
    providers: Vec<String>,
    /// Have the kubelet send the pods' tokens, for this audience, to the plugins that can use them; with NAME= before it, to
    /// that plugin only. May be repeated.
    #[arg(long, value_name = "[NAME=]AUDIENCE")]
    token_audience: Vec<Audience>,
    /// A pattern for the images that a plugin is asked about, instead of its own. exchange, echo, docker-config and exec have
    /// none of their own and need it. May be repeated.
    #[arg(long, value_name = "NAME=PATTERN")]
    match_images: Vec<Named>,
    /// An argument for a plugin, instead of its own: `--args docker-config=--path=/etc/registry`. May be repeated.
    #[arg(long, value_name = "NAME=ARGUMENT")]
    args: Vec<Named>,
    #[command(flatten)]
    relay: RelayArgs,
    /// Copy keyfob itself (with --agent: the relay) into the directory and link to the copy, for a place that must stand alone.
    #[arg(long)]
    copy: bool,
    /// Replace files of the plugins' names that are not keyfob's.
    #[arg(long)]
    force: bool,
    /// Write the configuration to this file, in one piece, instead of printing it. Its directory is created if it is missing.
    /// A file that is there and says something else is refused.
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Add these providers to the --config-file that is there, or replace them there, and keep its others and its comments.
    /// The old file is kept beside it, as FILE.bak-TIME.
    #[arg(long, requires = "config_file")]
    merge: bool,
    /// Say what would be done, print the configuration as it would be, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// In which form a new configuration is written.
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(super) enum Form {
    /// YAML.
    #[default]
    Yaml,
    /// JSON.
    Json,
}

impl Form {
    pub(super) fn print(self, config: &Config) -> String {
        match self {
            Self::Yaml => config.migrate(),
            Self::Json => config::json(config),
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    keyfob_providers::ALL.iter().map(|known| known.name)
}

/// Those that know their images.
fn clouds() -> Vec<&'static str> {
    let clouds = keyfob_providers::ALL.iter().filter(|known| !known.match_images.is_empty());
    clouds.map(|known| known.name).collect()
}

pub(crate) fn run(args: &InstallArgs) -> Outcome {
    if args.relay.agent {
        return install_relay(args);
    }
    let providers = args.chosen();
    let choices = Choices {
        audiences: &args.token_audience,
        match_images: &args.match_images,
        args: &args.args,
    };
    let config = match config::of(&providers, &choices) {
        Ok(config) => config,
        Err(error) => return Outcome::wrong_input(&error),
    };
    let programs = providers.iter().map(|provider| provider.program);
    args.carry_out(&config, programs, Program::Keyfob)
}

/// The kubelet's side of the agent.
fn install_relay(args: &InstallArgs) -> Outcome {
    let wanted = args.relay.config(&args.directory, &args.token_audience);
    let wanted = wanted.and_then(|config| Ok((config, args.relay.program()?)));
    match wanted {
        Ok((config, relay)) => {
            args.carry_out(&config, std::iter::once(relay::PLUGIN), Program::Relay(&relay))
        }
        Err(error) => {
            let told: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
            Outcome { stderr: lines(&told), verdict: Verdict::WrongInput, ..Outcome::default() }
        }
    }
}

impl InstallArgs {
    /// Each once, in the order of the list.
    fn chosen(&self) -> Vec<&'static Provider> {
        let is_chosen = |known: &&Provider| self.providers.iter().any(|name| name == known.name);
        keyfob_providers::ALL.iter().filter(is_chosen).collect()
    }

    fn carry_out(
        &self,
        config: &Config,
        programs: impl Iterator<Item = &'static str> + Clone,
        target: Program<'_>,
    ) -> Outcome {
        let done = if self.dry_run {
            self.rehearse(config, programs, target)
        } else {
            self.install(config, programs, target)
        };
        done.unwrap_or_else(|refused| refused)
    }

    /// Nothing is touched before everything is known to fit. The plugins come before the file that makes a kubelet want them.
    fn install(
        &self,
        config: &Config,
        programs: impl Iterator<Item = &'static str> + Clone,
        target: Program<'_>,
    ) -> Result<Outcome, Outcome> {
        let staged = match self.plan(config)? {
            Some(plan) => Some(plan.stage().map_err(|error| self.unwritten(&error))?),
            None => None,
        };
        let mut told = self.links(target).install(programs).map_err(|error| in_the_way(&error))?;
        let stdout = match staged {
            None => self.output.print(config),
            Some(staged) => {
                told.extend(staged.commit().map_err(|error| self.unwritten(&error))?);
                String::new()
            }
        };
        told.extend(self.hints(config));
        Ok(Outcome { stdout, stderr: lines(&told), ..Outcome::default() })
    }

    /// Says what `install` would do and print.
    fn rehearse(
        &self,
        config: &Config,
        programs: impl Iterator<Item = &'static str> + Clone,
        target: Program<'_>,
    ) -> Result<Outcome, Outcome> {
        let plan = self.plan(config)?;
        let mut told = self.links(target).plan(programs).map_err(|error| in_the_way(&error))?;
        let stdout = match &plan {
            None => self.output.print(config),
            Some(plan) => plan.text().unwrap_or_default().to_owned(),
        };
        told.extend(plan.iter().flat_map(|plan| plan.describe(Verb::Planned)));
        told.extend(self.hints(config));
        told.push("nothing was changed (--dry-run)".to_owned());
        Ok(Outcome { stdout, stderr: lines(&told), ..Outcome::default() })
    }

    fn plan(&self, config: &Config) -> Result<Option<Plan>, Outcome> {
        let Some(path) = &self.config_file else { return Ok(None) };
        let (merge, plugins) = (self.merge, self.directory.as_path());
        let wanted = Wanted { path, config, form: self.output, merge, plugins };
        Plan::new(&wanted).map(Some).map_err(|error| match error {
            ConfigFileError::Unwritable { .. } => {
                Outcome { verdict: Verdict::Unwritten, ..in_the_way(&error) }
            }
            _ => in_the_way(&error),
        })
    }

    fn links<'a>(&'a self, program: Program<'a>) -> Installing<'a> {
        let way = if self.copy { Way::Copy } else { Way::Link };
        Installing { directory: &self.directory, program, way, force: self.force }
    }

    fn unwritten(&self, error: &io::Error) -> Outcome {
        let path = self.config_file.as_deref().unwrap_or(Path::new("")).display();
        let error = error.to_string();
        // The draft has another name, which nobody knows.
        let error = error.split(" at path \"").next().unwrap_or_default();
        let stderr = format!("keyfob: cannot write {path}: {error}\n");
        Outcome { stderr, verdict: Verdict::Unwritten, ..Outcome::default() }
    }

    /// What is still to be done, and what looks wrong.
    fn hints(&self, config: &Config) -> Vec<String> {
        let lint = config
            .lint(None)
            .into_iter()
            // That the relay is asked for every pull, and about registries of all lengths, is meant.
            .filter(|_| !self.relay.agent)
            .map(|warning| format!("{}: {} ({})", warning.provider, warning.message, warning.help));
        let audiences = config::audiences(config).into_iter().map(|audience| {
            format!(
                "nodes need the verb {VERB} on {audience}, or no token is sent; to allow it: keyfob audience rbac --audience {} \
                 | kubectl apply -f -",
                quoted(audience)
            )
        });
        let kubelet = self.config_file.iter().map(|path| {
            format!(
                "the kubelet needs these two flags, and a restart:\n{} {}",
                flag("--image-credential-provider-config", path),
                flag("--image-credential-provider-bin-dir", &self.directory)
            )
        });
        let twice = self.config_file.iter().flat_map(|path| also_configured(path, config));
        lint.chain(twice).chain(audiences).chain(kubelet).collect()
    }
}

/// A flag with a path that is right in every directory.
fn flag(name: &str, path: &Path) -> String {
    let path = path::absolute(path).unwrap_or_else(|_| path.to_owned());
    quoted(&format!("{name}={}", path.display()))
}

fn in_the_way(error: &(dyn Error + 'static)) -> Outcome {
    let text = Chain(error).to_string();
    let told: Vec<_> = text.lines().map(str::to_owned).collect();
    Outcome { stderr: lines(&told), verdict: Verdict::No, ..Outcome::default() }
}

fn lines(told: &[String]) -> String {
    told.iter().flat_map(|line| ["keyfob: ", line, "\n"]).collect()
}
