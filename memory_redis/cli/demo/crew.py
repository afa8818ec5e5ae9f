"""The worker processes as their parent sees them: start, hand over, hear, kill, replace, end."""

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from memory_redis.cli.demo.tasks import Failed, Ready, Reply, Task
from memory_redis.cli.demo.worker import work
from memory_redis.cli.problems import CommandError

__all__ = ["Crew", "Worker"]

START_SECONDS = 60.0


class Worker:
    """One process, its own pair of pipe ends, and the tasks it has not reported yet.

    Each process has a pipe of its own, so that one killed in the middle of a write harms no other.
    """

    def __init__(self, url: str, namespace: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.in_flight: dict[int, Task] = {}
        self.process: BaseProcess = context.Process(target=work, args=(url, namespace, theirs), daemon=True)
        with _interrupts_ignored():
            self.process.start()
        theirs.close()  # or the end of the process would not be seen here

    def give(self, task: Task) -> None:
        """Hand over a task; at most one of each conversation is in flight."""
        self.in_flight[task.conversation] = task
        try:
            self.connection.send(task)
        except OSError:
            raise self._ended() from None

    def hear(self) -> Reply:
        """The next reply.

        Raises:
            CommandError: The process ended, or could not do its task.
        """
        try:
            reply: Reply = self.connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if isinstance(reply, Failed):
            raise CommandError(reply.reason, reply.exit_code)
        return reply

    def kill(self) -> list[Task]:
        """SIGKILL the process and return what it left unknown: every task it had not reported."""
        self.process.kill()
        self.process.join()
        self.connection.close()
        return list(self.in_flight.values())

    def _ended(self) -> CommandError:
        self.process.join(1)
        return CommandError(f"a worker process ended unexpectedly (exit code {self.process.exitcode})")


class Crew:
    """Workers in fixed places; a killed one is replaced in its place."""

    def __init__(self, url: str, namespace: str, size: int) -> None:
        self._url, self._namespace = url, namespace
        self.workers: list[Worker] = []
        self.killed = 0
        try:
            for _ in range(size):
                self.workers.append(Worker(url, namespace))
            for worker in self.workers:
                self._await(worker)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, place: int) -> Worker:
        return self.workers[place]

    def ready(self) -> Iterator[Worker]:
        """Wait until some workers have something to say, then yield those."""
        by_connection = {worker.connection: worker for worker in self.workers}
        for connection in wait(list(by_connection)):
            assert isinstance(connection, Connection)  # noqa: S101 - for the type checker
            yield by_connection[connection]

    def replace(self, place: int) -> list[Task]:
        """Kill the worker in this place while a reply of its is under way, and start another there.

        The reply is never read: like a process that dies between its commit and its report, it
        leaves at least one turn stored and unreported. Returns what it left unknown, which the new
        worker is given to repeat.
        """
        worker = self.workers[place]
        worker.connection.poll(START_SECONDS)
        unknown = worker.kill()
        self.killed += 1
        self.workers[place] = Worker(self._url, self._namespace)
        for task in unknown:
            self.workers[place].give(task)
        return unknown

    def close(self) -> None:
        """End every process: by closing its pipe, and by signals if that does not do."""
        for worker in self.workers:
            worker.connection.close()
        for worker in self.workers:
            worker.process.join(2)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join(2)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    @staticmethod
    def _await(worker: Worker) -> None:
        if not worker.connection.poll(START_SECONDS):
            raise CommandError(f"a worker process did not start within {START_SECONDS:.0f} s")
        if not isinstance(worker.hear(), Ready):
            raise CommandError("a worker process spoke before it was ready")


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    # A child inherits an ignored SIGINT, and is thus deaf to Ctrl-C from its first instruction on.
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread: nothing to protect
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
