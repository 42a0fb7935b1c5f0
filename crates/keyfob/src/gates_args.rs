//! The flag for Kubernetes' feature gates, of every command that stands in for a component.

use clap::Args;
use keyfob_api::{FeatureGates, GatesError, KubernetesComponent, ParsedGates, RemovedGate};
use thiserror::Error;

#[derive(Debug, Args)]
pub(crate) struct GatesArgs {
    /// Feature gates of Kubernetes 1.37: `A=true,B=false`. May be repeated; the last value of a gate counts. A gate that
    /// Kubernetes has removed is refused; one that decides nothing here is logged with -v.
    #[arg(long, value_name = "GATES", value_parser = well_formed)]
    feature_gates: Vec<String>,
}

fn well_formed(text: &str) -> Result<String, GatesError> {
    // Whether a list is well-formed does not depend on the components.
    FeatureGates::parse(text, &[]).map(|_| text.to_owned())
}

impl GatesArgs {
    /// All lists together, as the components read them.
    pub(crate) fn parse(&self, components: &[KubernetesComponent]) -> ParsedGates {
        // Each list was found to be well-formed when it was typed.
        FeatureGates::parse(&self.feature_gates.join(","), components).unwrap_or_default()
    }

    /// Which gates are on. Those that decide nothing are logged.
    pub(crate) fn open(
        &self,
        components: &[KubernetesComponent],
    ) -> Result<FeatureGates, RemovedGates> {
        let parsed = self.parse(components);
        if !parsed.removed.is_empty() {
            return Err(RemovedGates(parsed.removed));
        }
        let unknown = parsed.unknown.iter().map(String::as_str);
        for gate in unknown.chain(parsed.unread) {
            tracing::info!(gate, "a feature gate that decides nothing here");
        }
        Ok(parsed.gates)
    }
}

/// Gates that Kubernetes no longer has. Obeying them in silence, or not at all, would hide that no component starts with them.
#[derive(Debug, Error)]
#[error("{}", lines(.0))]
pub(crate) struct RemovedGates(Vec<RemovedGate>);

/// What is wrong, and below it what to do, for each gate.
fn lines(gates: &[RemovedGate]) -> String {
    let lines: Vec<String> =
        gates.iter().map(|gate| format!("{gate}\nkeyfob: {}", gate.help())).collect();
    lines.join("\nkeyfob: ")
}
