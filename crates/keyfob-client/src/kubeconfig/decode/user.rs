//! Users and their plugins.

use keyfob_api::{
    Secret,
    document::{FieldError, Item},
};

use super::{Decoder, Fields, bytes};
use crate::{AuthProvider, ExecConfig, InteractiveMode, User};

pub(super) const USER: &Fields<User> = &[
    ("client-certificate", |_, user, item| item.read_text(&mut user.client_certificate)),
    ("client-certificate-data", |_, user, item| {
        user.client_certificate_data.clone_from(bytes(item)?.expose());
        Ok(())
    }),
    ("client-key", |_, user, item| item.read_text(&mut user.client_key)),
    ("client-key-data", |_, user, item| {
        user.client_key_data = bytes(item)?;
        Ok(())
    }),
    ("token", |_, user, item| item.read_secret(&mut user.token)),
    ("tokenFile", |_, user, item| item.read_text(&mut user.token_file)),
    ("as", |_, user, item| item.read_text(&mut user.impersonate.user)),
    ("as-uid", |_, user, item| item.read_text(&mut user.impersonate.uid)),
    ("as-groups", |_, user, item| {
        user.impersonate.groups = item.texts(|_, _| ())?;
        Ok(())
    }),
    ("as-user-extra", |_, user, item| {
        user.impersonate.extra = extra(item)?;
        Ok(())
    }),
    ("username", |_, user, item| item.read_text(&mut user.username)),
    ("password", |_, user, item| item.read_secret(&mut user.password)),
    ("auth-provider", |decoder, user, item| {
        let mut provider = AuthProvider::default();
        let is_there = decoder.object(AUTH_PROVIDER, &mut provider, item)?;
        user.auth_provider = is_there.then_some(provider);
        Ok(())
    }),
    ("exec", |decoder, user, item| {
        user.exec = decoder.exec(item)?;
        Ok(())
    }),
    ("extensions", |decoder, user, item| {
        user.extensions = decoder.extensions(item)?;
        Ok(())
    }),
];

const EXEC: &Fields<ExecConfig> = &[
    ("command", |_, exec, item| item.read_text(&mut exec.command)),
    ("args", |_, exec, item| {
        exec.args = item.texts(|_, _| ())?;
        Ok(())
    }),
    ("env", |decoder, exec, item| {
        exec.env = decoder.variables(item)?;
        Ok(())
    }),
    ("apiVersion", |_, exec, item| item.read_text(&mut exec.api_version)),
    ("installHint", |_, exec, item| item.read_text(&mut exec.install_hint)),
    ("provideClusterInfo", |_, exec, item| {
        exec.provide_cluster_info = item.bool()?.unwrap_or_default();
        Ok(())
    }),
    ("interactiveMode", |_, exec, item| {
        if let Some(mode) = item.string()? {
            exec.interactive_mode = InteractiveMode::from(mode.expose().as_str());
        }
        Ok(())
    }),
];

/// A variable of a plugin's environment: its name and its value.
const VARIABLE: &Fields<(String, Secret<String>)> = &[
    ("name", |_, (name, _), item| item.read_text(name)),
    ("value", |_, (_, value), item| item.read_secret(value)),
];

const AUTH_PROVIDER: &Fields<AuthProvider> = &[
    ("name", |_, provider, item| item.read_text(&mut provider.name)),
    ("config", |_, provider, item| {
        item.entries(|name, item| {
            let value = item.string()?.cloned().unwrap_or_default();
            provider.config.insert(name.expose().clone(), value);
            Ok(())
        })
        .map(drop)
    }),
];

impl Decoder {
    fn exec(&mut self, item: Item<'_>) -> Result<Option<ExecConfig>, FieldError> {
        let mut exec = ExecConfig::default();
        let is_there = self.object(EXEC, &mut exec, item)?;
        // What the default is depends on `apiVersion`, which may come later in the text.
        if exec.interactive_mode == InteractiveMode::Unspecified {
            exec.interactive_mode = InteractiveMode::default_for(&exec.api_version);
        }
        Ok(is_there.then_some(exec))
    }

    fn variables(&mut self, item: Item<'_>) -> Result<Vec<(String, Secret<String>)>, FieldError> {
        let mut variables = Vec::new();
        item.elements(|_, item| {
            let mut variable = Default::default();
            self.object(VARIABLE, &mut variable, item)?;
            variables.push(variable);
            Ok(())
        })?;
        Ok(variables)
    }
}

fn extra(item: Item<'_>) -> Result<Vec<(String, Vec<String>)>, FieldError> {
    let mut extra = Vec::new();
    item.entries(|name, item| {
        extra.push((name.expose().clone(), item.texts(|_, _| ())?));
        Ok(())
    })?;
    Ok(extra)
}
