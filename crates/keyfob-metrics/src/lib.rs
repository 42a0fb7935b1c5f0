#![doc = include_str!("../README.md")]

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};

/// A metric, or a family of metrics, that a collector writes under a name.
pub trait EncodeAs {
    /// Writes the metric with this name and help text.
    fn encode_as(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
    ) -> Result<(), fmt::Error>;
}

impl<M: EncodeMetric> EncodeAs for M {
    fn encode_as(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
    ) -> Result<(), fmt::Error> {
        self.encode(encoder.encode_descriptor(name, help, None, self.metric_type())?)
    }
}
