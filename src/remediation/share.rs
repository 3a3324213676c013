//! A number of machines, or a share of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of machines, or a share of them in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// So many of a hundred, rounded down as Kubernetes does, but one at least if it is not 0.
    Percent(u32),
    /// So many.
    Machines(usize),
}

impl Share {
    /// How many of so many machines.
    #[must_use]
    pub fn of(self, machines: usize) -> usize {
        match self {
            Self::Machines(number) => number,
            Self::Percent(0) => 0,
            Self::Percent(percent) => {
                let share = machines as u128 * u128::from(percent.min(100)) / 100;
                usize::try_from(share).unwrap_or(machines).max(1)
            }
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub const fn as_number(self) -> Option<usize> {
        match self {
            Self::Machines(number) => Some(number),
            Self::Percent(_) => None,
        }
    }

    /// The share in percent, if it is one.
    #[must_use]
    pub const fn as_percent(self) -> Option<u32> {
        match self {
            Self::Machines(_) => None,
            Self::Percent(percent) => Some(percent),
        }
    }

    /// The share, if it is one of which none makes no sense.
    ///
    /// # Errors
    ///
    /// It is none of the machines: what the least is.
    pub const fn at_least_one(self) -> Result<Self, &'static str> {
        match self {
            Self::Machines(0) => Err("the least is 1"),
            Self::Percent(0) => Err("the least is 1%"),
            share => Ok(share),
        }
    }

    /// Whether it is at most another, of however many machines.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        match (self, other) {
            (Self::Machines(mine), Self::Machines(other)) => mine <= other,
            (Self::Percent(mine), Self::Percent(other)) => mine <= other,
            _ => false,
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Machines(number) => write!(f, "{number}"),
        }
    }
}

/// Why a text is no [`Share`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is a number of machines, or a share of them such as `40%`")]
pub struct NoShare;

impl FromStr for Share {
    type Err = NoShare;

    fn from_str(text: &str) -> Result<Self, NoShare> {
        let percent = text.strip_suffix('%').map(str::parse::<u32>);
        match percent {
            Some(Ok(percent)) if percent <= 100 => Ok(Self::Percent(percent)),
            Some(_) => Err(NoShare),
            None => text.parse().map(Self::Machines).map_err(|_| NoShare),
        }
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Percent(_) => serializer.collect_str(self),
            Self::Machines(number) => serializer.serialize_u64(*number as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number of machines, or a share such as `40%`")]
        enum Written {
            Number(usize),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self::Machines(number)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}
