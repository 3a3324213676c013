//! The order of names for people: numbers in them count as numbers, so that `n2` stands before `n10`.
//!
//! What programs read stays in the order of characters, in which lists are merged.

use std::cmp::Ordering;

/// Compares two names; those that differ in leading zeros only stand in the order of their characters.
#[must_use]
pub fn natural(left: &str, right: &str) -> Ordering {
    let (mut rest, mut other) = (left.as_bytes(), right.as_bytes());
    loop {
        let (Some(a), Some(b)) = (rest.first(), other.first()) else {
            return rest.len().cmp(&other.len()).then_with(|| left.cmp(right));
        };
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let (number, behind) = number(rest);
            let (others, behind_other) = self::number(other);
            let order = number
                .len()
                .cmp(&others.len())
                .then_with(|| number.cmp(others));
            if order.is_ne() {
                return order;
            }
            (rest, other) = (behind, behind_other);
        } else if a == b {
            (rest, other) = (&rest[1..], &other[1..]);
        } else {
            return a.cmp(b);
        }
    }
}

/// The digits that a text begins with, without leading zeros, and what stands behind them.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = text.split_at(digits);
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    (&digits[zeros..], behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let sorted = [
            "",
            "1",
            "01",
            "2",
            "10",
            "N1",
            "n",
            "n-1",
            "n1",
            "n1-2",
            "n1-10",
            "n01",
            "n2",
            "n2a",
            "n10",
            "n10a",
            "n99999999999999999999",
            "n100000000000000000000",
            "node",
            "ü",
        ];
        for pair in sorted.windows(2) {
            if ["01", "n01"].contains(&pair[1]) || ["01", "n01"].contains(&pair[0]) {
                continue;
            }
            assert_eq!(natural(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(natural(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(natural("n01", "n1"), Ordering::Less);
        assert_eq!(natural("n01", "n2"), Ordering::Less);
        assert_eq!(natural("n1", "n1"), Ordering::Equal);
    }

    #[test]
    fn it_is_an_order() {
        let names = [
            "a", "a0", "a00", "a1", "a01", "a1b", "a01a", "b", "a10", "a9", "-", "0", "00a", "0a",
        ];
        for one in names {
            for two in names {
                assert_eq!(
                    natural(one, two),
                    natural(two, one).reverse(),
                    "{one} {two}"
                );
                assert_eq!(natural(one, two) == Ordering::Equal, one == two);
                for three in names {
                    if natural(one, two).is_le() && natural(two, three).is_le() {
                        assert!(natural(one, three).is_le(), "{one} {two} {three}");
                    }
                }
            }
        }
    }
}
