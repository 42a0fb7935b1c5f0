//! Logins in a docker configuration that the instance's metadata holds or points to.

use keyfob_api::RegistryKey;
use keyfob_keyring::DockerConfig;
use keyfob_plugin::{Answer, Call, Doing as _, Failure};

use super::metadata::Metadata;
use crate::http::{Http, Reply};

const CONFIG: &str = "instance/attributes/google-dockercfg";
const CONFIG_URL: &str = "instance/attributes/google-dockercfg-url";

pub(super) async fn in_metadata(metadata: &Metadata, call: &Call) -> Result<Answer, Failure> {
    let config = metadata.get(CONFIG, call).await?;
    answer(&config).doing(format_args!("the docker configuration in {CONFIG}"))
}

/// The address may be anyone's: it is asked without the headers that open the metadata service.
pub(super) async fn at_url(
    metadata: &Metadata,
    http: &Http,
    call: &Call,
) -> Result<Answer, Failure> {
    let reply = metadata.get(CONFIG_URL, call).await?;
    let url = String::from_utf8_lossy(reply.body().expose()).trim().to_owned();
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        return Err(Failure::new(format!("{CONFIG_URL} must hold an http:// or https:// address")));
    }
    call.step(format!("fetching the docker configuration that {CONFIG_URL} points to"));
    let config = http.get(url).send(call).await.and_then(Reply::success)?;
    answer(&config).doing(format_args!("the docker configuration that {CONFIG_URL} points to"))
}

fn answer(config: &Reply) -> Result<Answer, Failure> {
    let config = DockerConfig::read(config.body().expose())?;
    let mut logins = config.entries().filter(|(key, login)| {
        !login.password.expose().is_empty() && RegistryKey::parse(key).is_ok()
    });
    let (key, login) = logins.next().ok_or_else(|| Failure::new("there is no login in it"))?;
    let first = Answer::login(key, &*login.username, login.password.clone());
    Ok(logins.fold(first, |answer, (key, login)| {
        answer.and(key, &*login.username, login.password.clone())
    }))
}
