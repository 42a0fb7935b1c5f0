//! `docker-config-credential-provider`: logins in docker's config files.
//!
//! The files are read for every request, so that a login that was changed is used for the next pull; `--cache-duration`
//! trades that for fewer runs. The answer has what the kubelet would find for the image, and nothing else of the files.

mod files;

use std::{collections::HashSet, path::PathBuf, time::Duration};

use clap::Parser;
use keyfob_api::{ImageRef, MatchTarget};
use keyfob_keyring::{Login, select};
use keyfob_plugin::{Answer, CacheKeyType, Failure, ImageCredentials, ImageRequest};

use crate::{CommonArgs, Provider, ProviderArgs, World, credential_helper::HelperLogin, program};

pub(crate) const PROVIDER: Provider = Provider {
    name: "docker-config",
    program: "docker-config-credential-provider",
    about: "logins in docker's config files",
    match_images: &[],
    default_cache_duration: "1m",
    args: &[],
    needs_token: false,
    run: program::run::<Args>,
    annotations: program::annotations::<Args>,
};

/// Logins in docker's config files.
///
/// Files are config.json as docker and podman write it, a Secret's .dockerconfigjson, or the older .dockercfg. Of a
/// directory, those named so and all others that end in .json are read, in the order of their names. If two files have a
/// login under one key, the first counts. A file that cannot be read or understood is a failure, not passed over.
///
/// Identity tokens in the files are not used: a kubelet cannot use them.
#[derive(Debug, Parser)]
#[command(name = PROVIDER.program, version)]
#[command(
    after_help = "Without --path, config.json in the directory that DOCKER_CONFIG names is read. With --helpers, PATH says \
                  where helpers are looked for."
)]
#[non_exhaustive]
pub struct Args {
    /// A file, or a directory of files. May be repeated.
    #[arg(long = "path", value_name = "FILE_OR_DIR")]
    paths: Vec<PathBuf>,
    /// Ask the credential helpers that a file names (credHelpers, credsStore) before using what it holds itself. Without
    /// this they are ignored, as by a kubelet: they run as whoever runs the kubelet, mostly root.
    #[arg(long)]
    helpers: bool,
    /// How long the kubelet keeps a login; with 0s the files are read for every pull.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0s",
        value_parser = program::duration,
        env = "KEYFOB_DOCKER_CONFIG_CACHE_DURATION",
        hide_env_values = true
    )]
    cache_duration: Duration,
    #[command(flatten)]
    common: CommonArgs,
}

impl ProviderArgs for Args {
    fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn provider(self, world: World) -> Result<impl ImageCredentials, Failure> {
        let Self { mut paths, helpers, cache_duration, .. } = self;
        if paths.is_empty() {
            let directory = world.environment.var("DOCKER_CONFIG").filter(|path| !path.is_empty());
            let Some(directory) = directory else {
                return Err(Failure::new(
                    "no place to look for logins: give --path, or set DOCKER_CONFIG to docker's directory",
                ));
            };
            paths.push(PathBuf::from(directory).join("config.json"));
        }
        Ok(ConfigFiles { paths, helpers, cache_duration, world })
    }
}

#[derive(Debug)]
struct ConfigFiles {
    paths: Vec<PathBuf>,
    helpers: bool,
    cache_duration: Duration,
    world: World,
}

impl ImageCredentials for ConfigFiles {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        let files = files::listed(&self.paths)?;
        let stored = stored(&files, request)?;
        let mut found = if self.helpers { self.asked(&files, request).await? } else { Vec::new() };
        found.extend(stored);
        let mut seen = HashSet::new();
        found.retain(|(key, _)| seen.insert(key.clone()));
        if found.is_empty() {
            return Ok(Answer::nothing());
        }
        // What is there for one image need not be all that there is for its registry.
        let empty = Answer::nothing().cached_by(CacheKeyType::Image);
        let answer = found.into_iter().fold(empty, |answer, (key, login)| {
            request.call().hide(&login.password);
            answer.and(key, login.username, login.password)
        });
        Ok(answer.cached_for(self.cache_duration))
    }
}

impl ConfigFiles {
    /// What the helpers know that the files name for the registry.
    async fn asked(
        &self,
        files: &[PathBuf],
        request: &ImageRequest,
    ) -> Result<Vec<(String, Login)>, Failure> {
        let mut found = Vec::new();
        for path in files {
            let Some(helper) = files::helper(path, request.registry())? else { continue };
            if let Some(HelperLogin { username, password }) =
                helper.login(&self.world, request).await?
            {
                let login = Login { username: username.into(), password, ..Login::default() };
                found.push((request.registry().to_owned(), login));
            }
        }
        Ok(found)
    }
}

/// What the files hold for the image, the more exact keys first. An entry without a password says that a helper has it.
fn stored(files: &[PathBuf], request: &ImageRequest) -> Result<Vec<(String, Login)>, Failure> {
    let logins = files.iter().map(|path| files::logins(path)).collect::<Result<Vec<_>, _>>()?;
    let image = ImageRef::parse(request.image()).ok();
    let repository = image.as_ref().map_or(request.image(), ImageRef::repository);
    let target = MatchTarget::parse(repository.trim_end_matches('/')).ok();
    let found = select(repository, target.as_ref(), &logins);
    let usable = found.iter().filter(|credential| !credential.password().expose().is_empty());
    Ok(usable.map(|found| (found.key().to_string(), found.login().clone())).collect())
}
