//! The roles of the `tidegate-determinism` binary beside a check: control, load, guard.

use std::io;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::{guard, load};

pub use tidegate_guest::Program;

/// What the binary is started for.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Role {
    /// Be one of the programs that must differ, or must not.
    Control {
        /// Which.
        #[arg(value_parser = program())]
        program: Program,
    },
    /// Keep a core busy until the end of the input.
    #[command(hide = true, name = load::ROLE)]
    Hog,
    /// Kill what the check leaves behind when it dies.
    #[command(hide = true, name = guard::ROLE)]
    Guard {
        /// What the processes to kill carry in their environment.
        mark: String,
    },
}

fn program() -> impl TypedValueParser<Value = Program> {
    PossibleValuesParser::new(Program::ALL.map(Program::name))
        .try_map(|name| Program::named(&name).ok_or("there is no such program"))
}

impl Role {
    /// Plays the role on the standard streams, to its end.
    ///
    /// # Errors
    ///
    /// When a standard stream fails.
    pub fn play(self) -> io::Result<()> {
        match self {
            Self::Control { program } => program.perform(&mut io::stdout().lock(), &mut io::stderr().lock()),
            Self::Hog => load::serve(io::stdin().lock(), io::stdout()),
            Self::Guard { mark } => guard::serve(&mark, io::stdin().lock(), io::stdout()),
        }
    }
}
