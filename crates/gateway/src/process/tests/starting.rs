//! From the launcher to the first lines.

use super::super::end::{StopStep, TreeState, await_old_tree};
use super::super::resolve::ResolveError;
use super::super::server::Exit;
use super::super::spawn::SpawnError;
use super::super::stdin::WriteError;
use super::prove_dead;
use super::*;
use std::os::unix::fs::PermissionsExt as _;

#[tokio::test]
async fn nothing_runs_before_the_release_and_what_runs_then_is_who_was_recorded() {
    let _shared = MACHINE.read().await;
    let dir = tempfile::tempdir().unwrap();
    let spawner = spawner();
    let mut spec = shell("touch started; echo $$ $TIDEGATE_NONCE ${TIDEGATE_TOKEN-none} $COLOUR; exec cat");
    spec.cwd = Some(dir.path().to_owned());
    spec.env =
        [("TIDEGATE_TOKEN", "secret"), ("COLOUR", "blue")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let nonce = nonce();

    let spawned = spawner.spawn(&spec, &nonce).unwrap();
    let recorded = spawned.identity().clone();
    let running = TreeState::Running { pids: vec![recorded.pid] };
    assert_eq!(prove_dead(&recorded).await.unwrap(), running);
    assert!(!dir.path().join("started").exists());

    let mut server = spawned.release().await.unwrap();
    server.stdin.write_line(b"not lost").await.unwrap();
    assert_eq!(line(&mut server).await, format!("{} {nonce} none blue", recorded.pid));
    assert_eq!(line(&mut server).await, "not lost");
    assert_eq!(prove_dead(&recorded).await.unwrap(), running);
    let group = tidegate_host::stat_of(recorded.pid).unwrap().group;
    assert_eq!(group, recorded.pid);

    let report = server.handle.stop(GRACE).await.unwrap();
    assert_eq!((report.unclean, report.steps.as_slice()), (false, [StopStep::CloseInput].as_slice()));
    assert_eq!(server.handle.exited(), Some(Exit { code: Some(0), signal: None }));
    assert_eq!(server.stdout.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_launcher_that_is_never_released_ends_and_starts_nothing() {
    let _shared = MACHINE.read().await;
    let dir = tempfile::tempdir().unwrap();
    let spawner = spawner();
    let mut spec = shell("touch started");
    spec.cwd = Some(dir.path().to_owned());
    let spawned = spawner.spawn(&spec, &nonce()).unwrap();
    let identity = spawned.identity().clone();
    drop(spawned);
    assert_eq!(await_old_tree(&identity, PATIENCE).await.unwrap(), TreeState::Gone);
    assert!(!dir.path().join("started").exists());
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_told_before_anything_is() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let mut spec = LaunchSpec { command: vec!["no-such-server".into()], ..LaunchSpec::default() };
    spec.env.insert("PATH".into(), "/bin:/usr/bin".into());
    let error = spawner.spawn(&spec, "n").unwrap_err();
    assert!(matches!(error, SpawnError::Command(ResolveError::NotOnPath { .. })), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("no-such-server") && text.contains("PATH=\"/bin:/usr/bin\""), "{text}");

    spec.cwd = Some("/no/such/directory".into());
    let text = spawner.spawn(&spec, "n").unwrap_err().to_string();
    assert_eq!(text, "the working directory /no/such/directory is not a directory");
}

#[tokio::test]
async fn a_program_that_cannot_be_executed_after_all_says_why() {
    let _shared = MACHINE.read().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server");
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spec = LaunchSpec { command: vec![file.display().to_string()], ..LaunchSpec::default() };

    let server = spawner().spawn(&spec, &nonce()).unwrap().release().await.unwrap();
    assert_eq!(server.handle.exit().await, Exit { code: Some(127), signal: None });
    let said = server.handle.final_stderr(5).await;
    assert!(said.contains("server: the interpreter that its first line names does not exist"), "{said}");
}

#[tokio::test]
async fn a_server_that_exits_at_once_leaves_its_status_and_its_last_words() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let mut server = start(&spawner, "echo half; printf torn; echo 'no database' >&2; exit 3").await;
    assert_eq!(line(&mut server).await, "half");
    assert_eq!(server.stdout.next().await.unwrap(), Some(Line::Torn { bytes: 4 }));
    let exit = server.handle.exit().await;
    assert_eq!(exit.to_string(), "exited with status 3");
    assert_eq!(server.handle.final_stderr(5).await, "no database");
    assert!(!server.handle.stop(GRACE).await.unwrap().unclean);
}

#[tokio::test]
async fn a_mebibyte_of_standard_error_neither_blocks_the_server_nor_is_kept() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    for fold in ["cat", "fold -w 99"] {
        let script = format!("head -c 1048576 /dev/zero | tr '\\0' x | {fold} >&2; echo end >&2; echo done");
        let mut server = start(&spawner, &script).await;
        assert_eq!(line(&mut server).await, "done");
        server.handle.exit().await;
        let tail = server.handle.final_stderr(usize::MAX).await;
        assert!(tail.ends_with("end") && tail.len() < 100_000, "{} bytes kept", tail.len());
        assert!(server.handle.stderr_bytes() > 1 << 20);
        server.handle.stop(GRACE).await.unwrap();
    }
}

#[tokio::test]
async fn a_write_that_nobody_reads_ends_when_the_server_is_stopped() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let server = start(&spawner, "exec sleep 600").await;
    let stdin = server.stdin.clone();
    let writing = tokio::spawn(async move { stdin.write_line(&vec![b'x'; 1 << 20]).await });
    server.handle.stop(Duration::ZERO).await.unwrap();
    assert!(matches!(writing.await.unwrap(), Err(WriteError::Closed)));
    assert!(matches!(server.stdin.write_line(b"late").await, Err(WriteError::Closed)));
}

#[tokio::test]
async fn after_half_a_line_no_other_line_is_written() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let server = start(&spawner, "exec sleep 600").await;
    let long = vec![b'x'; 1 << 20];
    let given_up = tokio::time::timeout(GLANCE, server.stdin.write_line(&long)).await;
    assert!(given_up.is_err());
    assert!(matches!(server.stdin.write_line(b"next").await, Err(WriteError::Torn)));
    server.handle.stop(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn what_the_pipe_takes_at_once_and_what_it_takes_later_is_one_line_and_nothing_comes_between() {
    let _shared = MACHINE.read().await;
    let spawner = spawner();
    let mut server = start(&spawner, "exec cat").await;
    // The pipe is known to be ready once something was waited for, if not before.
    server.stdin.write_line(b"first").await.unwrap();
    let mut long = vec![b'x'; 1 << 20];
    long.push(b'\n');
    let mut taken = 0;
    eventually("the pipe takes something", || {
        taken = server.stdin.try_write(&long);
        taken > 0
    })
    .await;
    assert!(taken < long.len(), "a pipe has no room for a mebibyte");
    assert_eq!(server.stdin.try_write(b"between\n"), 0);
    assert!(matches!(server.stdin.write_line(b"between").await, Err(WriteError::Torn)));
    let stdin = server.stdin.clone();
    let writing = tokio::spawn(async move { stdin.write_rest(&long, taken).await });
    assert_eq!(line(&mut server).await, "first");
    assert_eq!(line(&mut server).await.len(), 1 << 20);
    writing.await.unwrap().unwrap();
    assert_eq!(server.stdin.try_write(b"next\n"), 5);
    assert_eq!(line(&mut server).await, "next");
    server.handle.stop(GRACE).await.unwrap();
    assert_eq!(server.stdin.try_write(b"late\n"), 0);
}
