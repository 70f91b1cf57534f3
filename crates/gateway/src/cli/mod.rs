//! The command line: one definition, from which help and parsing come. What each command does is in its own file.

mod client;
mod doctor;
mod generate;
mod import;
mod print;
mod render;
mod request;
mod serve;
mod state;
mod takeover;
mod token;

use crate::exit::{CliError, CliResult};
use crate::log::LogFormat;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;
use tidegate_core::{ComponentName, Fence, IncidentId, OperationId, SessionName, WorkClass};

pub(crate) use state::resume_offline;

/// Below the help of `tidegate` itself.
const AFTER_HELP: &str = "\
Look first: `tidegate status` says what needs somebody, and what to type.
Exit codes: 0 done, 1 the answer is no, 2 could not run (the reason is on stderr).";

/// The heading of what every command takes.
const EVERYWHERE: &str = "Options of every command";

/// An MCP gateway that restarts the servers many agent sessions share, with nothing lost.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// The configuration (else $TIDEGATE_CONFIG, else ./tidegate.toml)
    #[arg(long, global = true, value_name = "FILE", env = crate::config::CONFIG_VAR, hide_env = true, help_heading = EVERYWHERE)]
    pub(crate) config: Option<PathBuf>,
    /// A file with the token to act with (else $TIDEGATE_TOKEN; without either you are `local`)
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERYWHERE)]
    pub(crate) token_file: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon in the foreground
    Serve {
        /// Take the place of the daemon that runs: an operation over all components, with the approvals that a restart needs
        #[arg(long)]
        takeover: bool,
        /// Serve the mcpServers file of a client instead of a configuration, with the state beside it
        #[arg(long, value_name = "FILE", conflicts_with = "config")]
        mcp_config: Option<PathBuf>,
        /// How the log on stderr is written
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        log_format: LogFormat,
    },
    /// Be a stdio MCP server for a client's configuration
    Connect(ConnectArgs),
    /// Show components, sessions, leases, operations and incidents
    Status,
    /// Ask for, approve and follow restarts
    #[command(subcommand)]
    Restart(RestartCommand),
    /// Show a session's facts and its next action (works without a daemon)
    Resume {
        /// The session's name
        #[arg(long, value_name = "NAME")]
        session: SessionName,
    },
    /// List, show and end sessions
    Sessions {
        #[command(subcommand)]
        command: Option<SessionsCommand>,
    },
    /// Session tokens, for HTTP clients
    #[command(subcommand, hide = true)]
    Session(SessionCommand),
    /// Look at leases and act on them
    #[command(subcommand)]
    Leases(LeasesCommand),
    /// Look at checkpoints
    #[command(subcommand)]
    Checkpoints(CheckpointsCommand),
    /// Look at incidents, acknowledge and resolve them
    #[command(subcommand)]
    Incidents(IncidentsCommand),
    /// Check, adopt or compact the state directory
    #[command(subcommand)]
    Store(StoreCommand),
    /// Make a token, and its hash for an `[[operator]]` or `[[principal]]`
    Token,
    /// Read the configuration again: components that have changed become proposed operations
    Reload,
    /// Turn the mcpServers file of a client into a configuration
    Import {
        /// The client's file; it is only read
        file: PathBuf,
        /// Write the configuration to a new file, for you alone, instead of printing it
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Check configuration, state, runtimes, daemon and clients, and say what to do
    Doctor,
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual, or write every page of it into a directory
    Man {
        /// The directory
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["component", "control"]))]
pub(crate) struct ConnectArgs {
    /// The component to connect to
    pub(crate) component: Option<ComponentName>,
    /// Serve the governance tools instead of a component
    #[arg(long)]
    pub(crate) control: bool,
    /// The session's name; the same name is the same session again
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<SessionName>,
    /// Take the name over from a client that still lives; an operator takes over anybody's session
    #[arg(long, requires = "session")]
    pub(crate) steal: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RestartCommand {
    /// Ask for a restart
    Request {
        /// The components to restart together
        #[arg(required = true, value_name = "COMPONENT")]
        components: Vec<ComponentName>,
        /// Why; whoever approves it reads this
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// The operation's id, to ask again without asking twice
        #[arg(long, value_name = "ID")]
        operation: Option<OperationId>,
        /// Skip approvals (operators only)
        #[arg(long)]
        break_glass: bool,
        /// With --break-glass: cut unsafe calls that outlive the drain's deadline; their outcome is unknown then
        #[arg(long, requires = "break_glass")]
        abandon_unsafe: bool,
        /// Start the component by this command from now on: the rest of the line; what fails is rolled back
        #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Approve a request by somebody else (approvers only); the last approval begins the drain
    Approve {
        /// The operation's id; `tidegate restart list` shows them
        id: OperationId,
    },
    /// Deny a request (approvers only)
    Deny {
        /// The operation's id; `tidegate restart list` shows them
        id: OperationId,
    },
    /// Take a request back, or give a drain up before anything is stopped (its requester, or an operator)
    Cancel {
        /// The operation's id; `tidegate restart list` shows them
        id: OperationId,
    },
    /// All operations
    List,
    /// One operation
    Show {
        /// The operation's id; `tidegate restart list` shows them
        id: OperationId,
    },
    /// Wait for the end of an operation, with a line on stderr for each call that it waits for; exits 0 only on Completed
    Wait {
        /// The operation's id; `tidegate restart list` shows them
        id: OperationId,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// All sessions
    List,
    /// One session: its next action and its facts
    Show {
        /// The session's name
        name: SessionName,
    },
    /// End a session for good (operators only)
    End {
        /// The session's name
        name: SessionName,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Mint a session token
    Token { name: SessionName },
}

#[derive(Debug, Subcommand)]
pub(crate) enum LeasesCommand {
    /// All leases
    List,
    /// One lease, and what became of it
    Show {
        /// The lease's key
        key: String,
    },
    /// Acquire a lease for a live session
    Acquire {
        /// The lease's key, like repo/main
        key: String,
        /// The session that is to hold it
        #[arg(long, value_name = "NAME")]
        session: SessionName,
        /// read-only, idempotent or mutating
        #[arg(long, default_value = "mutating")]
        class: WorkClass,
        /// How long it holds without a renewal, in seconds
        #[arg(long, default_value_t = 60, value_name = "SECONDS")]
        ttl: u64,
    },
    /// Renew a lease
    Renew {
        /// The lease's key, like repo/main
        key: String,
        /// The session that holds it
        #[arg(long, value_name = "NAME")]
        session: SessionName,
        /// The fence it was granted with
        #[arg(long, value_name = "EPOCH.REVISION")]
        fence: Fence,
    },
    /// Release a lease
    Release {
        /// The lease's key, like repo/main
        key: String,
        /// The session that holds it
        #[arg(long, value_name = "NAME")]
        session: SessionName,
        /// The fence it was granted with
        #[arg(long, value_name = "EPOCH.REVISION")]
        fence: Fence,
    },
    /// Give a lease to another session (operators only; recorded); the old fence is void from then on
    Adopt {
        /// The lease's key, like repo/main
        key: String,
        /// The connected session that gets it
        #[arg(long, value_name = "NAME")]
        session: SessionName,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointsCommand {
    /// All checkpoints
    List,
    /// One session's checkpoint
    Show {
        /// The session's name
        session: SessionName,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum IncidentsCommand {
    /// All incidents, open ones first
    List,
    /// One incident, with its evidence and what to do
    Show {
        /// The incident's id; `tidegate incidents list` shows them
        id: IncidentId,
    },
    /// Acknowledge: somebody is looking at it
    Ack {
        /// The incident's id; `tidegate incidents list` shows them
        id: IncidentId,
    },
    /// Resolve (operators only)
    Resolve {
        /// The incident's id; `tidegate incidents list` shows them
        id: IncidentId,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Check the journal and say what it holds
    Check,
    /// Accept a restored or copied state directory: raises the epoch, so that no old fence is valid
    Adopt,
    /// Rewrite the journal with live records only
    Compact,
}

impl Cli {
    /// Whether standard output is for one JSON document. That of `connect` is its client's, and speaks the protocol only.
    pub(crate) fn answers_in_json(&self) -> bool {
        self.global.json && !matches!(self.command, Command::Connect(_))
    }
}

/// Runs a command.
pub(crate) fn run(cli: Cli) -> CliResult {
    match &cli.command {
        Command::Serve { takeover, mcp_config, log_format } => {
            serve::run(&cli.global, *takeover, mcp_config.as_deref(), *log_format)
        }
        Command::Connect(args) => crate::shim::run(&cli.global, args),
        Command::Resume { session } => state::resume(&cli.global, session),
        Command::Store(command) => state::store(&cli.global, command),
        Command::Token => token::run(&cli.global),
        Command::Session(_) => Err(later("session token")),
        Command::Import { file, out } => import::run(&cli.global, file, out.as_deref()),
        Command::Doctor => doctor::run(&cli.global),
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { out } => generate::man(out.as_deref()),
        command => request::run(&cli.global, command),
    }
}

fn later(what: &str) -> CliError {
    CliError::cannot(format!("`{what}` is not available yet"))
}
