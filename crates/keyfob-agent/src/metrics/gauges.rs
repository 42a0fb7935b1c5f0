//! What the agent knows anyway, read when somebody asks.

use std::{fmt, time::SystemTime};

use keyfob_metrics::EncodeAs as _;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

use crate::agent::Shared;

/// The state of an agent at one moment.
#[derive(Debug)]
pub(super) struct Gauges {
    is_reload_successful: bool,
    loaded: SystemTime,
    next_renewal: Option<SystemTime>,
    remembered_images: usize,
    /// By listener.
    connections: [(&'static str, usize); 3],
}

impl Gauges {
    pub(super) fn of(shared: &Shared) -> Self {
        let (reloads, connections) = (shared.reloads(), shared.metrics.connections());
        Self {
            is_reload_successful: reloads.last.is_none_or(|last| last.error.is_none()),
            loaded: reloads.loaded.unwrap_or(shared.started),
            next_renewal: shared.remembered.next_renewal(),
            remembered_images: shared.remembered.count(),
            connections: [
                ("agent", connections.agent.count()),
                ("admin", connections.admin.count()),
                ("http", connections.http.count()),
            ],
        }
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let encoder = &mut encoder;
        with_label(
            encoder,
            "keyfob_agent_build_info",
            "The version of the agent",
            "version",
            [(env!("CARGO_PKG_VERSION"), 1)],
        )?;
        ConstGauge::new(u64::from(self.is_reload_successful)).encode_as(
            encoder,
            "keyfob_agent_config_last_reload_successful",
            "Whether the last reload of the configuration succeeded; 1 before the first",
        )?;
        ConstGauge::new(seconds(self.loaded)).encode_as(
            encoder,
            "keyfob_agent_config_last_reload_success_timestamp_seconds",
            "When the configuration that is in use was read, in seconds since 1970",
        )?;
        if let Some(due) = self.next_renewal {
            ConstGauge::new(seconds(due)).encode_as(
                encoder,
                "keyfob_agent_next_renewal_timestamp_seconds",
                "When the next renewal is due, in seconds since 1970; in the past if it fails",
            )?;
        }
        ConstGauge::new(self.remembered_images as u64).encode_as(
            encoder,
            "keyfob_agent_remembered_images",
            "Images whose answers are renewed, and requested again after a restart",
        )?;
        let connections = self.connections;
        with_label(
            encoder,
            "keyfob_agent_connections",
            "Open connections",
            "listener",
            connections.map(|(listener, open)| (listener, open as u64)),
        )
    }
}

/// Writes a gauge with a series for each value of a label.
fn with_label(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &'static str,
    series: impl IntoIterator<Item = (&'static str, u64)>,
) -> Result<(), fmt::Error> {
    let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (value, number) in series {
        ConstGauge::new(number).encode(gauge.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
