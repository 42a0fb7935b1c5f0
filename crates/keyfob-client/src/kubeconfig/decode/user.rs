//! Users and their plugins.

use keyfob_api::{
    Secret,
    document::{FieldError, Item},
};

use super::{Decoder, bytes};
use crate::{AuthProvider, ExecConfig, InteractiveMode, User};

const USER: [&str; 15] = [
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "token",
    "tokenFile",
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
    "username",
    "password",
    "auth-provider",
    "exec",
    "extensions",
];
const EXEC: [&str; 7] = [
    "command",
    "args",
    "env",
    "apiVersion",
    "installHint",
    "provideClusterInfo",
    "interactiveMode",
];

impl Decoder {
    pub(super) fn user(&mut self, item: Item<'_>) -> Result<User, FieldError> {
        let mut user = User::default();
        item.object(&USER, |name, item| {
            match name {
                "client-certificate" => item.read_text(&mut user.client_certificate)?,
                "client-certificate-data" => {
                    user.client_certificate_data.clone_from(bytes(item)?.expose());
                }
                "client-key" => item.read_text(&mut user.client_key)?,
                "client-key-data" => user.client_key_data = bytes(item)?,
                "token" => item.read_secret(&mut user.token)?,
                "tokenFile" => item.read_text(&mut user.token_file)?,
                "as" => item.read_text(&mut user.impersonate.user)?,
                "as-uid" => item.read_text(&mut user.impersonate.uid)?,
                "as-groups" => user.impersonate.groups = item.texts(|_, _| ())?,
                "as-user-extra" => user.impersonate.extra = extra(item)?,
                "username" => item.read_text(&mut user.username)?,
                "password" => item.read_secret(&mut user.password)?,
                "auth-provider" => user.auth_provider = auth_provider(item)?,
                "exec" => user.exec = exec(item)?,
                _ => user.extensions = self.extensions(item)?,
            }
            Ok(())
        })?;
        Ok(user)
    }
}

fn exec(item: Item<'_>) -> Result<Option<ExecConfig>, FieldError> {
    let mut exec = ExecConfig::default();
    let mut mode = String::new();
    let is_there = item.object(&EXEC, |name, item| {
        match name {
            "command" => item.read_text(&mut exec.command)?,
            "args" => exec.args = item.texts(|_, _| ())?,
            "env" => exec.env = variables(item)?,
            "apiVersion" => item.read_text(&mut exec.api_version)?,
            "installHint" => item.read_text(&mut exec.install_hint)?,
            "provideClusterInfo" => {
                exec.provide_cluster_info = item.bool()?.unwrap_or_default();
            }
            _ => item.read_text(&mut mode)?,
        }
        Ok(())
    })?;
    exec.interactive_mode = match InteractiveMode::from(mode.as_str()) {
        InteractiveMode::Unspecified => InteractiveMode::default_for(&exec.api_version),
        said => said,
    };
    Ok(is_there.then_some(exec))
}

fn variables(item: Item<'_>) -> Result<Vec<(String, Secret<String>)>, FieldError> {
    let mut variables = Vec::new();
    item.elements(|_, item| {
        let (mut name, mut value) = (String::new(), Secret::default());
        item.object(&["name", "value"], |field, item| match field {
            "name" => item.read_text(&mut name),
            _ => item.read_secret(&mut value),
        })?;
        variables.push((name, value));
        Ok(())
    })?;
    Ok(variables)
}

fn auth_provider(item: Item<'_>) -> Result<Option<AuthProvider>, FieldError> {
    let mut provider = AuthProvider::default();
    let is_there = item.object(&["name", "config"], |name, item| {
        match name {
            "name" => item.read_text(&mut provider.name)?,
            _ => drop(item.entries(|name, item| {
                let value = item.string()?.cloned().unwrap_or_default();
                provider.config.insert(name.expose().clone(), value);
                Ok(())
            })?),
        }
        Ok(())
    })?;
    Ok(is_there.then_some(provider))
}

fn extra(item: Item<'_>) -> Result<Vec<(String, Vec<String>)>, FieldError> {
    let mut extra = Vec::new();
    item.entries(|name, item| {
        extra.push((name.expose().clone(), item.texts(|_, _| ())?));
        Ok(())
    })?;
    Ok(extra)
}
