#![doc = include_str!("../README.md")]

use std::{borrow::Cow, fmt};

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

/// The value of a label as it must be written: the encoder writes it as it is, and a quote or a line break would end it.
pub fn label_value(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 8);
    for character in value.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_itself() {
        assert!(matches!(label_value("docker-config"), Cow::Borrowed("docker-config")));
        assert_eq!(label_value("a\"} 1\nb{c=\"\\"), r#"a\"} 1\nb{c=\"\\"#);
    }
}
