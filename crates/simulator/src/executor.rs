//! The executor: tasks of groups that can be killed, virtual time, and a seeded choice of who goes next.
//!
//! Single-threaded and deterministic: which task is polled follows from the seed alone, and time moves only when nobody
//! can go on. It knows nothing of what the tasks do.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A task's future.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tasks that live and die together: a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group(pub(crate) u64);

impl Group {
    /// What no kill ever reaches.
    pub(crate) const WORLD: Self = Self(0);
}

/// What one step was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// A task was polled.
    Polled,
    /// Nobody could go on: the clock moved to the next alarm.
    Waited,
    /// Nobody can ever go on.
    Idle,
}

/// The executor. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    tasks: Mutex<Tasks>,
    /// Apart from the tasks, because wakers are called while those are being polled and dropped.
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Tasks {
    last_group: u64,
    /// By number; `None` once they have ended.
    tasks: Vec<Option<Entry>>,
    /// Groups that don't go on.
    stopped: BTreeSet<Group>,
}

struct Entry {
    group: Group,
    /// With its waker, which is made once; `None` while it is being polled.
    task: Option<(Task, Waker)>,
}

struct Queue {
    now_ms: u64,
    ready: Vec<usize>,
    /// Which are in `ready`, by number.
    queued: Vec<bool>,
    /// Tasks of stopped groups whose turn has come.
    parked: BTreeSet<usize>,
    last_alarm: u64,
    alarms: BTreeMap<(u64, u64), Waker>,
    /// `None`: first come, first served.
    order: Option<fastrand::Rng>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TaskWaker {
    task: usize,
    queue: Arc<Mutex<Queue>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.queue).push(self.task);
    }
}

impl Tasks {
    fn remove(&mut self, task: usize) -> Option<Entry> {
        self.tasks.get_mut(task).and_then(Option::take)
    }
}

impl Queue {
    fn push(&mut self, task: usize) {
        if self.queued.len() <= task {
            self.queued.resize(task + 1, false);
        }
        if !std::mem::replace(&mut self.queued[task], true) {
            self.ready.push(task);
        }
    }

    fn pop(&mut self) -> Option<usize> {
        if self.ready.is_empty() {
            return None;
        }
        let at = self.order.as_mut().map_or(0, |rng| rng.usize(..self.ready.len()));
        let task = self.ready.remove(at);
        self.queued[task] = false;
        Some(task)
    }
}

impl Executor {
    /// With the order in which tasks that could go on do so; `None` is first come, first served.
    pub(crate) fn new(order: Option<fastrand::Rng>) -> Self {
        let queue = Queue {
            now_ms: 0,
            ready: Vec::new(),
            queued: Vec::new(),
            parked: BTreeSet::new(),
            last_alarm: 0,
            alarms: BTreeMap::new(),
            order,
        };
        let shared = Shared { tasks: Mutex::default(), queue: Arc::new(Mutex::new(queue)) };
        Self { shared: Arc::new(shared) }
    }

    /// Virtual milliseconds since the beginning.
    pub(crate) fn now_ms(&self) -> u64 {
        lock(&self.shared.queue).now_ms
    }

    /// A group that nobody is in yet.
    pub(crate) fn group(&self) -> Group {
        let mut tasks = lock(&self.shared.tasks);
        tasks.last_group += 1;
        Group(tasks.last_group)
    }

    /// Starts a task; answers its number.
    pub(crate) fn spawn(&self, group: Group, future: impl Future<Output = ()> + Send + 'static) -> usize {
        let mut tasks = lock(&self.shared.tasks);
        let task = tasks.tasks.len();
        let waker = Waker::from(Arc::new(TaskWaker { task, queue: self.shared.queue.clone() }));
        tasks.tasks.push(Some(Entry { group, task: Some((Box::pin(future), waker)) }));
        drop(tasks);
        lock(&self.shared.queue).push(task);
        task
    }

    /// Drops one task, wherever it is.
    pub(crate) fn abort(&self, task: usize) {
        let dropped = lock(&self.shared.tasks).remove(task);
        drop(dropped); // outside the lock: what it owned may wake others
    }

    /// Stops a group where it stands: nothing of it goes on until it is woken.
    pub(crate) fn stop(&self, group: Group) {
        lock(&self.shared.tasks).stopped.insert(group);
    }

    /// Lets a stopped group go on; `false` when it isn't stopped.
    pub(crate) fn wake(&self, group: Group) -> bool {
        let woken = lock(&self.shared.tasks).stopped.remove(&group);
        let mut queue = lock(&self.shared.queue);
        for task in std::mem::take(&mut queue.parked) {
            queue.push(task);
        }
        woken
    }

    /// The whole machine sleeps: its clock goes on, and nobody else.
    pub(crate) fn sleep_machine(&self, ms: u64) {
        lock(&self.shared.queue).now_ms += ms;
    }

    /// Drops all tasks of a group, each at the await it has come to.
    pub(crate) fn kill(&self, group: Group) {
        let mut tasks = lock(&self.shared.tasks);
        tasks.stopped.remove(&group);
        let of_group = |entry: &&mut Option<Entry>| entry.as_ref().is_some_and(|entry| entry.group == group);
        let dropped: Vec<_> = tasks.tasks.iter_mut().filter(of_group).map(Option::take).collect();
        drop(tasks);
        drop(dropped);
    }

    /// Drops all tasks.
    pub(crate) fn kill_all(&self) {
        let dropped: Vec<_> = lock(&self.shared.tasks).tasks.iter_mut().map(Option::take).collect();
        drop(dropped);
    }

    /// Polls one task that can go on, or moves the clock.
    pub(crate) fn step(&self) -> Stepped {
        while let Some(task) = { lock(&self.shared.queue).pop() } {
            let (mut future, waker) = {
                let mut tasks = lock(&self.shared.tasks);
                let tasks = &mut *tasks;
                let Some(Some(entry)) = tasks.tasks.get_mut(task) else { continue };
                if tasks.stopped.contains(&entry.group) {
                    lock(&self.shared.queue).parked.insert(task);
                    continue;
                }
                let Some(polled) = entry.task.take() else { continue };
                polled
            };
            let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            let mut tasks = lock(&self.shared.tasks);
            // A task that was killed while it ran has no place any more, and is dropped here.
            let left = match tasks.tasks.get_mut(task) {
                Some(Some(entry)) if !ended => {
                    entry.task = Some((future, waker));
                    None
                }
                _ => Some((tasks.remove(task), future)),
            };
            drop(tasks);
            drop(left);
            return Stepped::Polled;
        }
        let mut queue = lock(&self.shared.queue);
        let Some(at_ms) = queue.alarms.first_key_value().map(|((at, _), _)| *at) else {
            return Stepped::Idle;
        };
        queue.now_ms = queue.now_ms.max(at_ms);
        let later = queue.alarms.split_off(&(at_ms + 1, 0));
        let due = std::mem::replace(&mut queue.alarms, later);
        drop(queue);
        due.into_values().for_each(Waker::wake);
        Stepped::Waited
    }

    /// Completes when the clock has come to `at_ms`.
    pub(crate) fn sleep_until(&self, at_ms: u64) -> Sleep {
        Sleep { queue: self.shared.queue.clone(), at_ms, alarm: None }
    }

    /// Completes in `ms`.
    pub(crate) fn sleep(&self, ms: u64) -> Sleep {
        self.sleep_until(self.now_ms().saturating_add(ms))
    }
}

/// Waits for a moment of the virtual clock. Dropped, it forgets its alarm.
pub(crate) struct Sleep {
    queue: Arc<Mutex<Queue>>,
    at_ms: u64,
    alarm: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let queue = self.queue.clone();
        let mut queue = lock(&queue);
        if queue.now_ms >= self.at_ms {
            return Poll::Ready(());
        }
        let alarm = *self.alarm.get_or_insert_with(|| {
            queue.last_alarm += 1;
            queue.last_alarm
        });
        queue.alarms.insert((self.at_ms, alarm), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm {
            lock(&self.queue).alarms.remove(&(self.at_ms, alarm));
        }
    }
}

/// Lets others go first, once: a place where a process can be killed.
pub(crate) fn pause() -> impl Future<Output = ()> + Send {
    let mut paused = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(executor: &Executor) {
        while executor.step() != Stepped::Idle {}
    }

    /// Three tasks that write their name three times, with a pause after each.
    fn written(order: Option<fastrand::Rng>) -> String {
        let executor = Executor::new(order);
        let text = Arc::new(Mutex::new(String::new()));
        for name in ['a', 'b', 'c'] {
            let text = text.clone();
            executor.spawn(Group::WORLD, async move {
                for _ in 0..3 {
                    lock(&text).push(name);
                    pause().await;
                }
            });
        }
        run(&executor);
        lock(&text).clone()
    }

    #[test]
    fn the_seed_decides_who_goes_next_and_nothing_else_does() {
        assert_eq!(written(None), "abcabcabc");
        let seeded = |seed| written(Some(fastrand::Rng::with_seed(seed)));
        assert_eq!(seeded(7), seeded(7));
        assert!((0..10).any(|seed| seeded(seed) != seeded(seed + 1)));
    }

    #[test]
    fn time_moves_only_when_nobody_can_go_on() {
        let executor = Executor::new(None);
        let ended = Arc::new(Mutex::new(Vec::new()));
        for ms in [300, 100, 200] {
            let (executor, ended) = (executor.clone(), ended.clone());
            executor.clone().spawn(Group::WORLD, async move {
                executor.sleep(ms).await;
                lock(&ended).push((ms, executor.now_ms()));
            });
        }
        run(&executor);
        assert_eq!(*lock(&ended), [(100, 100), (200, 200), (300, 300)]);
    }

    #[test]
    fn a_stopped_group_goes_on_where_it_stood_when_it_is_woken() {
        let executor = Executor::new(None);
        let (stopped, count) = (executor.group(), Arc::new(Mutex::new(0)));
        let (sleeper, counted) = (executor.clone(), count.clone());
        executor.spawn(stopped, async move {
            for _ in 0..3 {
                *lock(&counted) += 1;
                sleeper.sleep(10).await;
            }
        });
        executor.step();
        executor.stop(stopped);
        run(&executor);
        assert_eq!(*lock(&count), 1);
        executor.sleep_machine(1_000);
        executor.wake(stopped);
        run(&executor);
        assert_eq!((*lock(&count), executor.now_ms()), (3, 1_030));
    }

    #[test]
    fn a_killed_group_goes_no_further_and_takes_nobody_with_it() {
        let executor = Executor::new(None);
        let (doomed, count) = (executor.group(), Arc::new(Mutex::new([0, 0])));
        for (index, group) in [doomed, Group::WORLD].into_iter().enumerate() {
            let count = count.clone();
            executor.spawn(group, async move {
                for _ in 0..5 {
                    lock(&count)[index] += 1;
                    pause().await;
                }
            });
        }
        for _ in 0..4 {
            executor.step();
        }
        executor.kill(doomed);
        run(&executor);
        assert_eq!(*lock(&count), [2, 5]);
    }
}
