//! The observer: what everybody in the world saw, what is durable, and the ten invariants on both. It acts on nothing, and
//! nothing that it observes knows of it.

mod coverage;
mod durable;
pub(crate) mod invariants;
mod seen;
mod truth;

pub use coverage::{Coverage, UNREACHABLE};
pub(crate) use durable::Durable;
pub(crate) use invariants::{Rule, Violation};
#[cfg(test)]
pub(crate) use seen::Refused;
pub(crate) use seen::{CallId, Fact, Needed, Outcome, Seen, answered_by};
pub(crate) use truth::{Call, ComponentTruth, Truth};

use crate::world::World;

/// Everything that was observed up to a step, and what is new in it.
pub(crate) struct Observation<'a> {
    pub(crate) truth: &'a Truth,
    pub(crate) durable: &'a Durable,
    pub(crate) news: &'a [Seen],
    /// The durable records have changed in this step.
    pub(crate) changed: bool,
}

/// Watches one run.
pub(crate) struct Observer {
    pub(crate) truth: Truth,
    pub(crate) durable: Durable,
    pub(crate) coverage: Coverage,
}

impl Observer {
    pub(crate) fn new(world: &World) -> Self {
        Self { truth: Truth::new(world), durable: Durable::default(), coverage: Coverage::default() }
    }

    /// Looks at the step that was just made.
    pub(crate) fn look(&mut self, world: &World) -> Result<(), Violation> {
        let news = world.take_news();
        let memory = world.store.memory();
        let restored = news.iter().any(|seen| matches!(seen, Seen::Restored));
        if restored {
            self.durable = Durable::default();
        }
        let changed = self.durable.refresh(memory, world.step(), &mut self.coverage)?;
        if news.is_empty() && !changed {
            return Ok(());
        }
        self.truth.now_ms = world.executor.now_ms();
        self.truth.step = world.step();
        for seen in &news {
            self.truth.learn(seen);
            self.coverage.count(seen, &self.truth);
        }
        if restored {
            self.truth.turn(&self.durable);
        }
        let observation = Observation { truth: &self.truth, durable: &self.durable, news: &news, changed };
        invariants::check(&observation)?;
        self.truth.turn(&self.durable);
        Ok(())
    }
}
