//! How container runtimes and the kubelet turn a request of CPUs into the `cpu.weight` of cgroup v2. A request of 1000 millicores is
//! 1024 shares (`MilliCPUToShares` in pkg/kubelet/cm/helpers_linux.go).

use crate::{Row, Table};

/// The formulas, who writes by which, and since when. The arithmetic is [`WeightFormula`]'s.
pub const WEIGHT_FORMULAS: Table = Table::new(include_str!("../data/weights.tsv"), "formula", "confidence");

/// A formula from shares of cgroup v1 to a weight of cgroup v2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WeightFormula {
    /// 1024 shares are 39.
    Linear,
    /// 1024 shares are 100.
    Quadratic,
}

/// Least and greatest shares.
const SHARES_RANGE: std::ops::RangeInclusive<f64> = 2.0..=262_144.0;

impl WeightFormula {
    /// Both.
    pub const ALL: [WeightFormula; 2] = [WeightFormula::Linear, WeightFormula::Quadratic];

    /// Its row in [`WEIGHT_FORMULAS`].
    pub fn row(self) -> Option<Row> {
        WEIGHT_FORMULAS.row(match self {
            WeightFormula::Linear => "linear",
            WeightFormula::Quadratic => "quadratic",
        })
    }

    /// The weight that is written for so many shares.
    pub fn weight(self, shares: u32) -> u32 {
        let shares = f64::from(shares).clamp(*SHARES_RANGE.start(), *SHARES_RANGE.end());
        match self {
            WeightFormula::Linear => (1.0 + ((shares - 2.0) * 9999.0 / 262_142.0).floor()) as u32,
            WeightFormula::Quadratic => {
                let l = shares.log2();
                // Rounding must not lift a whole number to the next.
                (10f64.powf((l * l + 125.0 * l) / 612.0 - 7.0 / 34.0) - 1e-9).ceil() as u32
            }
        }
    }

    /// The request of CPUs for which such a weight is written.
    pub fn request(self, weight: u32) -> f64 {
        let weight = f64::from(weight.clamp(1, 10_000));
        let shares = match self {
            WeightFormula::Linear => 2.0 + (weight - 1.0) * 262_142.0 / 9999.0,
            // l^2 + 125 l - 612 (log10(weight) + 7/34) = 0
            WeightFormula::Quadratic => {
                let constant = 612.0 * (weight.log10() + 7.0 / 34.0);
                (((125.0f64 * 125.0 + 4.0 * constant).sqrt() - 125.0) / 2.0).exp2()
            }
        };
        shares / 1024.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_weights() {
        let table = [(2, 1, 1), (100, 4, 17), (1024, 39, 100), (2000, 77, 170), (262_144, 10_000, 10_000)];
        for (shares, linear, quadratic) in table {
            let found = WeightFormula::ALL.map(|formula| formula.weight(shares));
            assert_eq!(found, [linear, quadratic], "{shares} shares");
        }
        for formula in WeightFormula::ALL {
            assert!(formula.row().is_some_and(Row::is_stated), "{formula:?}");
            for shares in [512, 1024, 4096, 65_536] {
                let back = formula.request(formula.weight(shares)) * 1024.0;
                assert!((back / f64::from(shares) - 1.0).abs() < 0.06, "{formula:?} {shares} {back}");
            }
        }
    }
}
