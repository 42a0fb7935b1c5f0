//! Plugins that run inside the test, and what they were asked.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use keyfob_api::CredentialProviderRequest;
use keyfob_exec::{BoxFuture, Finished, Invocation, RunError, Runner, Status, StderrTail, Stdin};
use serde_json::{Value, json};
use tokio::sync::watch;

/// In every password.
pub(crate) const SECRET: &str = "hunter2-d41d8cd9";

type Respond = Arc<dyn Fn(&CredentialProviderRequest) -> Option<Value> + Send + Sync>;

/// All plugins of an agent. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Plugins(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    respond: HashMap<String, Respond>,
    asked: Vec<(String, CredentialProviderRequest)>,
    takes: Duration,
    /// Runs of this plugin, or of all, end when the sender is gone.
    held: Option<(Option<String>, watch::Receiver<()>)>,
    running: usize,
    most_running: usize,
}

impl Plugins {
    /// What a plugin answers from now on; nothing means that it fails.
    pub(crate) fn respond(
        &self,
        name: &str,
        respond: impl Fn(&CredentialProviderRequest) -> Option<Value> + Send + Sync + 'static,
    ) {
        self.state().respond.insert(name.to_owned(), Arc::new(respond));
    }

    /// A plugin that has a login of this user for the registry of each image, valid for an hour.
    pub(crate) fn login(&self, name: &str, user: &'static str) {
        self.respond(name, move |request| {
            Some(logins("Registry", "1h", [(registry(request), user)]))
        });
    }

    pub(crate) fn fail(&self, name: &str) {
        self.respond(name, |_| None);
    }

    /// How long each run takes from now on.
    pub(crate) fn take(&self, takes: Duration) {
        self.state().takes = takes;
    }

    /// Keeps runs from ending until what this returns is dropped.
    #[must_use]
    pub(crate) fn hold(&self) -> watch::Sender<()> {
        let (sender, held) = watch::channel(());
        self.state().held = Some((None, held));
        sender
    }

    /// Keeps runs of one plugin from ending until what this returns is dropped.
    #[must_use]
    pub(crate) fn hold_only(&self, name: &str) -> watch::Sender<()> {
        let (sender, held) = watch::channel(());
        self.state().held = Some((Some(name.to_owned()), held));
        sender
    }

    /// The plugins and images that were asked, in order.
    pub(crate) fn asked(&self) -> Vec<(String, String)> {
        let state = self.state();
        state.asked.iter().map(|(name, request)| (name.clone(), request.image.clone())).collect()
    }

    pub(crate) fn runs(&self) -> usize {
        self.state().asked.len()
    }

    pub(crate) fn running(&self) -> usize {
        self.state().running
    }

    /// How many ran at the same time, at most.
    pub(crate) fn most_running(&self) -> usize {
        self.state().most_running
    }

    /// The tokens that plugins were given.
    pub(crate) fn tokens(&self) -> Vec<(String, Option<String>)> {
        let state = self.state();
        let token = |request: &CredentialProviderRequest| {
            request.service_account_token.as_ref().map(|token| token.expose().clone())
        };
        state.asked.iter().map(|(name, request)| (name.clone(), token(request))).collect()
    }

    /// The annotations that plugins were given.
    pub(crate) fn annotations(&self) -> Vec<BTreeMap<String, String>> {
        let state = self.state();
        state.asked.iter().map(|(_, request)| request.service_account_annotations.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn begin(&self, invocation: &Invocation) -> (Option<Value>, Duration) {
        let name = invocation.program().file_name().unwrap().to_string_lossy().into_owned();
        let Stdin::Bytes(stdin) = invocation.input() else { panic!("no request") };
        let (_, request) = CredentialProviderRequest::decode(stdin.expose()).unwrap();
        let mut state = self.state();
        let respond = state.respond.get(&name).cloned();
        let answer = respond.and_then(|respond| respond(&request));
        state.asked.push((name, request));
        state.running += 1;
        state.most_running = state.most_running.max(state.running);
        (answer, state.takes)
    }
}

impl Runner for Plugins {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(async move {
            let (answer, takes) = self.begin(invocation);
            let _running = RunningPlugin(self);
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            let held = self.state().held.clone();
            let name = invocation.program().file_name().and_then(|name| name.to_str());
            match held {
                Some((only, mut held)) if only.is_none() || only.as_deref() == name => {
                    while held.changed().await.is_ok() {}
                }
                _ => {}
            }
            let program = invocation.program().into();
            answer.map(|answer| finished(program, &answer)).ok_or_else(|| RunError::Failed {
                program: invocation.program().into(),
                status: Status::Exited(1),
                stderr: StderrTail::default(),
                elapsed: takes,
            })
        })
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plugins")
    }
}

struct RunningPlugin<'a>(&'a Plugins);

impl Drop for RunningPlugin<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}

fn finished(program: PathBuf, answer: &Value) -> Finished {
    Finished {
        program,
        status: Status::Exited(0),
        stdout: answer.to_string().into_bytes().into(),
        stderr: StderrTail::default(),
        elapsed: Duration::ZERO,
    }
}

pub(crate) fn registry(request: &CredentialProviderRequest) -> String {
    request.image.split('/').next().unwrap_or_default().to_owned()
}

/// An answer of users by key.
pub(crate) fn logins<K: Into<String>>(
    scope: &str,
    duration: &str,
    users: impl IntoIterator<Item = (K, &'static str)>,
) -> Value {
    let login = |(key, user): (K, &str)| {
        (key.into(), json!({"username": user, "password": password(user)}))
    };
    json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": scope,
        "cacheDuration": duration,
        "auth": users.into_iter().map(login).collect::<serde_json::Map<_, _>>(),
    })
}

pub(crate) fn password(user: &str) -> String {
    format!("{SECRET}-{user}")
}
