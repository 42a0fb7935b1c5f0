//! Users with an `auth-provider`, and the exec plugin that takes its place.
//!
//! Upstream: `plugin/pkg/client/auth`, where `oidc` is left; of `gcp` and `azure` only an error that names their successors.

use keyfob_api::{Quoted, document::yaml_quoted};
use keyfob_client::{AuthProvider, Selection};

use crate::{explain::command::quoted, match_images::shown};

/// A user who cannot be used, and where it stands.
#[derive(Debug)]
pub(crate) struct UnsupportedAuthProvider {
    user: String,
    cluster: String,
    /// The kubeconfig that defines the user.
    file: Option<String>,
    provider: AuthProvider,
}

impl UnsupportedAuthProvider {
    pub(super) fn new(selection: &Selection, provider: AuthProvider) -> Self {
        Self {
            user: selection.user_name.clone(),
            cluster: selection.cluster_name.clone(),
            file: selection.user.origin.as_deref().map(|path| path.to_string_lossy().into_owned()),
            provider,
        }
    }

    /// What is unsupported, and who supports it.
    pub(super) fn problem(&self) -> String {
        let (user, name) = (shown(&self.user), Quoted(&self.provider.name));
        let whose = match self.provider.name.as_str() {
            "oidc" => "which kubectl supports and Keyfob does not",
            "gcp" | "azure" => "which was removed from Kubernetes clients in 1.26",
            _ => "which neither kubectl nor Keyfob supports",
        };
        format!("user {user} has the auth-provider {name}, {whose}")
    }

    /// What to do instead; for `oidc` with a block to paste, which has none of the user's secrets.
    pub(super) fn remedy(&self) -> String {
        let file = self.file.as_deref().map_or("the kubeconfig".into(), shown);
        match self.provider.name.as_str() {
            "oidc" => format!(
                "in {file}, replace that user with the one below; `kubectl krew install oidc-login` installs its plugin, kubelogin\n\n{}",
                self.oidc_login()
            ),
            "gcp" => format!(
                "install its successor, gke-gcloud-auth-plugin, and have gcloud write the user again: {}",
                self.get_credentials()
            ),
            "azure" => format!(
                "install its successor, kubelogin of Azure (`az aks install-cli`), and have it convert the user: kubelogin \
                 convert-kubeconfig{}",
                self.kubeconfig_flag()
            ),
            _ => format!("in {file}, give the user an exec plugin, a token or a certificate"),
        }
    }

    /// The user with kubelogin (github.com/int128/kubelogin) in the place of client-go's provider.
    fn oidc_login(&self) -> String {
        let args: String = SETTINGS.iter().filter_map(|setting| self.argument(setting)).collect();
        let has_tokens = self.config("id-token").or(self.config("refresh-token")).is_some();
        let tokens = if has_tokens {
            "# id-token and refresh-token are not needed: the plugin logs you in once and keeps its own.\n"
        } else {
            ""
        };
        format!(
            "{tokens}users:\n- name: {}\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      \
             command: kubectl\n      args:\n      - oidc-login\n      - get-token\n{args}      interactiveMode: IfAvailable",
            yaml_quoted(&self.user)
        )
    }

    /// A setting as an argument of kubelogin, or a comment that says how to fill in what is not shown.
    fn argument(&self, setting: &Setting) -> Option<String> {
        let Setting { name, flag, .. } = setting;
        let value = self.config(name).or(setting.placeholder)?;
        // A URL with user info or a query may hold a secret.
        if !setting.is_hidden && !value.contains(['@', '?']) {
            return Some(format!("      - {}\n", yaml_quoted(&format!("{flag}={value}"))));
        }
        let config =
            format!("{{.users[?(@.name==\"{}\")].user.auth-provider.config.{name}}}", self.user);
        let file = self.kubeconfig_flag();
        Some(format!(
            "      # {name} is not shown. Add {flag}=VALUE here; this prints VALUE, while the auth-provider is there:\n      \
             # kubectl config view --raw{file} -o jsonpath={}\n",
            quoted(&config)
        ))
    }

    fn config(&self, name: &str) -> Option<&str> {
        let value = self.provider.config.get(name)?.expose().as_str();
        Some(value).filter(|value| !value.is_empty())
    }

    /// gcloud calls clusters `gke_PROJECT_LOCATION_NAME`.
    fn get_credentials(&self) -> String {
        let parts: Vec<_> = self.cluster.split('_').collect();
        let is_name = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        match parts.as_slice() {
            ["gke", project, location, name]
                if [project, location, name].iter().all(|it| is_name(it)) =>
            {
                format!(
                    "gcloud container clusters get-credentials {name} --location {location} --project {project}"
                )
            }
            _ => "gcloud container clusters get-credentials CLUSTER --location LOCATION".to_owned(),
        }
    }

    fn kubeconfig_flag(&self) -> String {
        let file = self.file.as_deref().map(|file| format!(" --kubeconfig {}", quoted(file)));
        file.unwrap_or_default()
    }
}

/// A setting of client-go's `oidc`, and how kubelogin calls it.
struct Setting {
    name: &'static str,
    flag: &'static str,
    /// It is a secret, or long.
    is_hidden: bool,
    /// What stands for it if it is missing and the plugin needs it.
    placeholder: Option<&'static str>,
}

impl Setting {
    const fn new(name: &'static str, flag: &'static str) -> Self {
        Self { name, flag, is_hidden: false, placeholder: None }
    }

    const fn needed(name: &'static str, flag: &'static str, placeholder: &'static str) -> Self {
        Self { placeholder: Some(placeholder), ..Self::new(name, flag) }
    }

    const fn hidden(name: &'static str, flag: &'static str) -> Self {
        Self { is_hidden: true, ..Self::new(name, flag) }
    }
}

const SETTINGS: [Setting; 6] = [
    Setting::needed("idp-issuer-url", "--oidc-issuer-url", "ISSUER_URL"),
    Setting::needed("client-id", "--oidc-client-id", "CLIENT_ID"),
    Setting::hidden("client-secret", "--oidc-client-secret"),
    Setting::new("extra-scopes", "--oidc-extra-scope"),
    Setting::new("idp-certificate-authority", "--certificate-authority"),
    Setting::hidden("idp-certificate-authority-data", "--certificate-authority-data"),
];
