//! The text format of Prometheus.

use std::fmt::Write as _;

/// The kinds of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that goes up and down.
    Gauge,
    /// A count that only grows.
    Counter,
    /// Counts of values by their upper bounds.
    Histogram,
}

impl MetricKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

/// Metrics as the text that Prometheus reads.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a metric; its name lacks the prefix of all.
    pub fn metric(&mut self, name: &str, kind: MetricKind, help: &str) {
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            self.0,
            "# HELP trueup_{name} {help}\n# TYPE trueup_{name} {}",
            kind.as_str()
        );
    }

    /// Adds a value with its labels.
    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.0, "trueup_{name}");
        for (position, (label, text)) in labels.iter().enumerate() {
            let before = if position == 0 { '{' } else { ',' };
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.0, "{before}{label}=\"{text}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// Adds a histogram: its counts up to each bound, the sum of its values and their number.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (u64, u64)>,
        (sum, count): (f64, u64),
    ) {
        let bucket = format!("{name}_bucket");
        let bounds = buckets.map(|(bound, value)| (bound.to_string(), value));
        for (bound, value) in bounds.chain([("+Inf".to_owned(), count)]) {
            self.value(&bucket, &[labels, &[("le", &bound)]].concat(), value);
        }
        self.value(&format!("{name}_sum"), labels, sum);
        self.value(&format!("{name}_count"), labels, count);
    }

    /// The text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_histograms_are_whole() {
        let mut text = Exposition::default();
        text.metric("x", MetricKind::Gauge, "Some value.");
        text.value("x", &[("site", "a\"b\\c\nd")], 1);
        text.histogram("y", &[("kind", "drain")], [(60, 1)].into_iter(), (70.5, 2));
        let expected = "# HELP trueup_x Some value.\n# TYPE trueup_x gauge\ntrueup_x{site=\"a\\\"b\\\\c\\nd\"} 1\n\
                        trueup_y_bucket{kind=\"drain\",le=\"60\"} 1\ntrueup_y_bucket{kind=\"drain\",le=\"+Inf\"} 2\n\
                        trueup_y_sum{kind=\"drain\"} 70.5\ntrueup_y_count{kind=\"drain\"} 2\n";
        assert_eq!(text.into_text(), expected);
    }
}
