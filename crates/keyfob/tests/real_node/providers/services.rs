//! What the plugins ask: files and programs of the node, a broker, Amazon.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use keyfob_testkit::Response;
use serde_json::json;

use super::PASSWORD;
use crate::{
    api::Api,
    moto::{Moto, corrected},
    registry::Access,
    world::World,
};

pub(super) const BROKER: &str = "broker.example.com";
const ECR_API: &str = "api.ecr.us-west-2.amazonaws.com";
pub(super) const STS: &str = "sts.us-west-2.amazonaws.com";

/// Puts a login of ada's where the page says that `docker-config` looks.
pub(super) fn write_docker_config(host: &str) {
    fs::create_dir_all("/etc/kubernetes/registry.d").unwrap();
    let login = json!({"auths": {host: {"username": "ada", "password": PASSWORD}}});
    fs::write("/etc/kubernetes/registry.d/example.json", login.to_string()).unwrap();
}

/// Installs the docker credential helper `vault`, which knows ada's login for every registry.
pub(super) fn write_docker_helper() {
    let helper = "/usr/local/bin/docker-credential-vault";
    let script = format!(
        "#!/bin/sh\nread -r url\n\
         printf '{{\"ServerURL\":\"%s\",\"Username\":\"ada\",\"Secret\":\"{PASSWORD}\"}}\\n' \"$url\"\n"
    );
    fs::write(helper, script).unwrap();
    fs::set_permissions(helper, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Access for the scenario's service account `default`, whose token is the password. The cluster says whose a token is.
pub(super) fn token_of_the_account(world: &World, audience: &'static str) -> Access {
    let (api, user) = (world.cluster.api.clone(), account(world, "default"));
    Access::Tokens(Box::new(move |login| is_token_of(&api, &login.password, audience, &user)))
}

/// Serves a broker that trades tokens of the scenario's service account `default` for the password, by RFC 8693.
pub(super) fn serve_broker(world: &World) {
    let (api, user) = (world.cluster.api.clone(), account(world, "default"));
    world.hosts.serve(BROKER, move |request| {
        if !is_token_of(&api, field(&request.body, "subject_token"), BROKER, &user) {
            return Response::json(r#"{"error":"invalid_grant"}"#).with_status(400);
        }
        let answer = json!({
            "access_token": PASSWORD,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": 3600,
        });
        Response::json(answer.to_string())
    });
}

/// Serves ECR and STS, which moto plays. Its tokens for registries all ended in 2015, which is corrected on the way.
pub(super) fn serve_aws(world: &World) -> Moto {
    let moto = Moto::start(&world.parts.program("moto_server"));
    for host in [ECR_API, STS] {
        let address = moto.address.clone();
        world.hosts.serve(host, move |request| corrected(&address, request, in_an_hour()));
    }
    moto
}

/// A field of a form, as it is encoded; empty if it is missing.
pub(super) fn field<'a>(form: &'a str, name: &str) -> &'a str {
    let mut fields = form.split('&').filter_map(|field| field.split_once('='));
    fields.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
}

/// Whether the cluster says that this token is meant for the audience and is the user's.
pub(super) fn is_token_of(api: &Api, token: &str, audience: &str, user: &str) -> bool {
    api.review_token(token, audience)["user"]["username"] == user
}

/// A service account of the scenario, as the cluster names a user.
pub(super) fn account(world: &World, name: &str) -> String {
    format!("system:serviceaccount:{}:{name}", world.namespace)
}

fn in_an_hour() -> u64 {
    let end = SystemTime::now() + Duration::from_hours(1);
    end.duration_since(UNIX_EPOCH).unwrap().as_secs()
}
