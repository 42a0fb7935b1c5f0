//! Counters by a name of the configuration and by an outcome.

use std::{collections::BTreeMap, fmt, iter::zip, sync::Arc};

use arc_swap::ArcSwap;
use keyfob_metrics::label_value;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::Counter},
};

/// The series exist from the moment that a configuration names them, with 0, to the moment that one no longer does. Any other name is not
/// counted, so there are as many series as the configuration has names, whatever callers do.
#[derive(Debug)]
pub(super) struct NamedCounters {
    /// The label that has the name.
    label: &'static str,
    outcomes: &'static [&'static str],
    by_name: ArcSwap<ByName>,
}

/// The counters of each name, in the order of the outcomes.
type ByName = BTreeMap<Arc<str>, Arc<[Counter]>>;

impl NamedCounters {
    pub(super) fn new(label: &'static str, outcomes: &'static [&'static str]) -> Self {
        Self { label, outcomes, by_name: ArcSwap::default() }
    }

    /// Names that were there before go on counting. One thread at a time may call this.
    pub(super) fn keep_only<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let old = self.by_name.load();
        let counters = |name: &'a str| match old.get_key_value(name) {
            Some((name, counters)) => (name.clone(), counters.clone()),
            None => (name.into(), self.outcomes.iter().map(|_| Counter::default()).collect()),
        };
        self.by_name.store(Arc::new(names.map(counters).collect()));
    }

    pub(super) fn increment(&self, name: &str, outcome: &str) {
        let by_name = self.by_name.load();
        let Some(counters) = by_name.get(name) else { return };
        if let Some((_, counter)) =
            zip(self.outcomes, &**counters).find(|(each, _)| **each == outcome)
        {
            counter.inc();
        }
    }

    pub(super) fn encode_as(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
    ) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (name, counters) in &**self.by_name.load() {
            let name = label_value(name);
            for (outcome, counter) in zip(self.outcomes, &**counters) {
                let labels = [(self.label, &*name), ("outcome", *outcome)];
                counter.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{collector::Collector, encoding::text::encode, registry::Registry};

    use super::*;

    #[derive(Clone, Debug)]
    struct Collected(Arc<NamedCounters>);

    impl Collector for Collected {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            self.0.encode_as(&mut encoder, "decisions", "Decisions")
        }
    }

    fn series(counters: &Collected) -> Vec<String> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(counters.clone()));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn only_names_of_the_configuration_are_counted_and_only_while_they_are_there() {
        let counters = NamedCounters::new("rule", &["allowed", "denied"]);
        counters.keep_only(["root", "builds"].into_iter());
        for _ in 0..3 {
            counters.increment("root", "denied");
            counters.increment("of a caller", "denied");
            counters.increment("root", "of a caller");
        }
        let counters = Collected(Arc::new(counters));
        assert_eq!(
            series(&counters),
            [
                r#"decisions_total{rule="builds",outcome="allowed"} 0"#,
                r#"decisions_total{rule="builds",outcome="denied"} 0"#,
                r#"decisions_total{rule="root",outcome="allowed"} 0"#,
                r#"decisions_total{rule="root",outcome="denied"} 3"#,
            ]
        );

        counters.0.keep_only(["root", "new"].into_iter());
        counters.0.increment("builds", "allowed");
        counters.0.increment("root", "denied");
        assert_eq!(
            series(&counters),
            [
                r#"decisions_total{rule="new",outcome="allowed"} 0"#,
                r#"decisions_total{rule="new",outcome="denied"} 0"#,
                r#"decisions_total{rule="root",outcome="allowed"} 0"#,
                r#"decisions_total{rule="root",outcome="denied"} 4"#,
            ]
        );
    }

    #[test]
    fn a_rule_may_have_any_name() {
        let counters = NamedCounters::new("rule", &["denied"]);
        counters.keep_only(["a\"} 1\nb\\"].into_iter());
        assert_eq!(
            series(&Collected(Arc::new(counters))),
            [r#"decisions_total{rule="a\"} 1\nb\\",outcome="denied"} 0"#]
        );
    }
}
