//! What an executor can change while everything else stays pinned: the levers of an ablation, and the cause that each
//! one stands for. Data only; which executor can move which is the executor's to say.

use serde::{Deserialize, Serialize};

use crate::record::Cause;

/// One thing that a run depends on, and that can be pinned or changed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// Where random numbers come from.
    Seed,
    /// The date at which the machine's clock starts.
    RtcBase,
    /// How many nanoseconds an instruction lasts, which moves every switch between threads.
    IcountShift,
    /// Whether the kernel randomises addresses.
    AddressLayout,
    /// The instructions and the identity of the processor.
    CpuModel,
    /// How much memory there is.
    MemorySize,
    /// One environment variable more.
    Environment,
    /// The order in which the file system lists names.
    FileOrder,
    /// How many processes were started before.
    PidOffset,
}

impl Factor {
    /// Every factor, in the order of the report's columns.
    pub const ALL: [Self; 9] = [
        Self::Seed,
        Self::RtcBase,
        Self::IcountShift,
        Self::AddressLayout,
        Self::CpuModel,
        Self::MemorySize,
        Self::Environment,
        Self::FileOrder,
        Self::PidOffset,
    ];

    /// The name that the record uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::RtcBase => "rtc_base",
            Self::IcountShift => "icount_shift",
            Self::AddressLayout => "address_layout",
            Self::CpuModel => "cpu_model",
            Self::MemorySize => "memory_size",
            Self::Environment => "environment",
            Self::FileOrder => "file_order",
            Self::PidOffset => "pid_offset",
        }
    }

    /// The cause that it stands for; the machine's own properties stand for none of ours.
    pub(crate) const fn cause(self) -> Option<Cause> {
        match self {
            Self::Seed => Some(Cause::Entropy),
            Self::RtcBase => Some(Cause::Clock),
            Self::IcountShift => Some(Cause::Schedule),
            Self::AddressLayout => Some(Cause::Address),
            Self::PidOffset => Some(Cause::Pid),
            Self::CpuModel | Self::MemorySize | Self::Environment | Self::FileOrder => None,
        }
    }

    /// The factors that can confirm a cause: moving one of them has to bring the divergence back.
    pub(crate) const fn of(cause: Cause) -> &'static [Self] {
        match cause {
            Cause::Clock => &[Self::RtcBase],
            Cause::Entropy => &[Self::Seed],
            Cause::Pid => &[Self::PidOffset],
            Cause::Address => &[Self::AddressLayout],
            Cause::Schedule => &[Self::IcountShift],
            Cause::Order => &[Self::Seed, Self::IcountShift],
            Cause::Unclassified => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_called_the_same_in_code_and_in_the_record() {
        for factor in Factor::ALL {
            assert_eq!(serde_json::to_value(factor).unwrap(), factor.name());
        }
    }

    #[test]
    fn every_cause_that_has_a_name_has_a_lever() {
        for cause in [Cause::Clock, Cause::Entropy, Cause::Pid, Cause::Address, Cause::Schedule, Cause::Order]
        {
            assert!(!Factor::of(cause).is_empty(), "{cause:?}");
        }
        assert!(Factor::of(Cause::Unclassified).is_empty());
    }
}
