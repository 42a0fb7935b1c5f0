//! `keyfob provider install DIR`.

use std::{
    fs::Permissions,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use keyfob_host::{Chain, Config};
use keyfob_providers::Provider;

use super::{
    config::{self, Audience, Choices, Named},
    links::{Installing, Way},
};
use crate::{Outcome, Verdict};

#[derive(Debug, Args)]
#[command(after_help = "Start the kubelet with --image-credential-provider-bin-dir=DIR and \
                  --image-credential-provider-config=FILE, where FILE is --config-file or holds what was printed.\n\
                  Exit codes: 0 installed, 1 something is in the way, 2 the flags do not fit together, 4 the configuration \
                  could not be written.")]
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
    /// A pattern for the images that a plugin is asked about, instead of its own. May be repeated.
    #[arg(long, value_name = "NAME=PATTERN")]
    match_images: Vec<Named>,
    /// An argument for a plugin, instead of its own: `--args docker-config=--path=/etc/registry`. May be repeated.
    #[arg(long, value_name = "NAME=ARGUMENT")]
    args: Vec<Named>,
    /// Copy keyfob itself into the directory and link to the copy, for a place that must stand alone.
    #[arg(long)]
    copy: bool,
    /// Replace files of the plugins' names that are not keyfob's.
    #[arg(long)]
    force: bool,
    /// Write the configuration to this file, in one piece, instead of printing it.
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// In which form the configuration is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Form {
    /// YAML.
    #[default]
    Yaml,
    /// JSON.
    Json,
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
    let providers = args.chosen();
    let choices = Choices {
        audiences: &args.token_audience,
        match_images: &args.match_images,
        args: &args.args,
    };
    // Nothing is touched before everything is known to fit.
    let config = match config::of(&providers, &choices) {
        Ok(config) => config,
        Err(error) => return Outcome::wrong_input(&error),
    };
    let way = if args.copy { Way::Copy } else { Way::Link };
    let programs = providers.iter().map(|provider| provider.program);
    let installing = Installing { directory: &args.directory, way, force: args.force };
    match installing.install(programs) {
        Ok(done) => args.print(&config, done),
        Err(error) => Outcome {
            stderr: format!("keyfob: {}\n", Chain(&error)),
            verdict: Verdict::No,
            ..Outcome::default()
        },
    }
}

impl InstallArgs {
    /// Each once, in the order of the list.
    fn chosen(&self) -> Vec<&'static Provider> {
        let is_chosen = |known: &&Provider| self.providers.iter().any(|name| name == known.name);
        keyfob_providers::ALL.iter().filter(is_chosen).collect()
    }

    fn print(&self, config: &Config, mut told: Vec<String>) -> Outcome {
        let stdout = match self.output {
            Form::Yaml => config.migrate(),
            Form::Json => config::json(config),
        };
        told.extend(config.lint(None).into_iter().map(|warning| {
            format!("{}: {} ({})", warning.provider, warning.message, warning.help)
        }));
        told.extend(config::audiences(config).into_iter().map(|audience| {
            let verb = "request-serviceaccounts-token-audience";
            format!("nodes must be allowed the verb {verb} on {audience}, or no token is sent")
        }));
        let stderr =
            told.into_iter().flat_map(|line| ["keyfob: ".to_owned(), line, "\n".to_owned()]);
        let mut outcome = Outcome { stderr: stderr.collect(), ..Outcome::default() };
        match &self.config_file {
            None => outcome.stdout = stdout,
            Some(path) => {
                if let Err(error) = replace(path, &stdout) {
                    let line = format!("keyfob: cannot write {}: {error}\n", path.display());
                    outcome.stderr.push_str(&line);
                    outcome.verdict = Verdict::Unwritten;
                }
            }
        }
        outcome
    }
}

/// A kubelet that starts meanwhile reads the old file or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
