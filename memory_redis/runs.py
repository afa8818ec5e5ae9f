"""Walks an exchange over turns: a call or a stream, sync or asyncio, the same lines four times.

Nothing here decides anything but the order: load, input, model, answer, commit, and again. A turn
that was not saved is left by an exception, so that leaving it commits nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from memory_redis.errors import MemoryRedisError
from memory_redis.exchanges import AwaitedTurn, Exchange, M, SyncTurn

_END: Final = object()


class _Unsaved(Exception):
    """Leaves a turn that was not saved, so that nothing more of it is stored."""


@contextmanager
def _given(output: Any) -> Iterator[None]:
    """An error while a stored turn is looked up carries what the model gave."""
    try:
        yield
    except MemoryRedisError as error:
        error.output = output
        raise


def run(
    exchange: Exchange[M], open_turn: Callable[[str | None], SyncTurn[M]], model: Callable[[list[M]], Any]
) -> Any:
    """The output of a model, its turn stored.

    Raises:
        InvalidMessage: the input cannot be stored; the model was not run.
        ConflictError, HistoryNotSaved: see `Exchange.failed`.
    """
    while True:
        pause: float | None = None
        output: Any = None
        with suppress(_Unsaved), open_turn(exchange.key) as turn:
            stored = turn.stored
            if exchange.resumes(stored):
                with open_turn(exchange.turn_key) as other:
                    stored = other.stored
            if exchange.begin(turn, stored):
                return exchange.output(stored)
            if exchange.brought(turn):
                try:
                    turn.commit(idempotency_key=exchange.input_key)
                except MemoryRedisError as error:
                    pause = exchange.refused(error)
                    raise _Unsaved from error
                exchange.input_stored(turn)
            past = exchange.seen(turn)
            try:
                with exchange.inside():
                    output = model(past)
            finally:
                exchange.over()
            while True:
                try:
                    exchange.answered(turn, output)
                    turn.commit(idempotency_key=exchange.turn_key)
                except MemoryRedisError as error:
                    pause = exchange.failed(turn, error, output)
                    raise _Unsaved from error
                except BaseException:
                    exchange.interrupted(turn)
                    raise
                if not exchange.committed(turn):
                    return output
                with _given(output), open_turn(exchange.turn_key) as other:
                    if not exchange.overtaken(other.stored):
                        return exchange.counting(other.stored, output)
        if pause is None:
            return output
        time.sleep(pause)


async def arun(
    exchange: Exchange[M],
    open_turn: Callable[[str | None], AwaitedTurn[M]],
    model: Callable[[list[M]], Awaitable[Any]],
) -> Any:
    """As `run`."""
    while True:
        pause: float | None = None
        output: Any = None
        with suppress(_Unsaved):
            async with open_turn(exchange.key) as turn:
                stored = turn.stored
                if exchange.resumes(stored):
                    async with open_turn(exchange.turn_key) as other:
                        stored = other.stored
                if exchange.begin(turn, stored):
                    return exchange.output(stored)
                if exchange.brought(turn):
                    try:
                        await turn.commit(idempotency_key=exchange.input_key)
                    except MemoryRedisError as error:
                        pause = exchange.refused(error)
                        raise _Unsaved from error
                    exchange.input_stored(turn)
                past = exchange.seen(turn)
                try:
                    with exchange.inside():
                        output = await model(past)
                finally:
                    exchange.over()
                while True:
                    try:
                        exchange.answered(turn, output)
                        await turn.commit(idempotency_key=exchange.turn_key)
                    except MemoryRedisError as error:
                        pause = exchange.failed(turn, error, output)
                        raise _Unsaved from error
                    except BaseException:
                        exchange.interrupted(turn)
                        raise
                    if not exchange.committed(turn):
                        return output
                    with _given(output):
                        async with open_turn(exchange.turn_key) as other:
                            if not exchange.overtaken(other.stored):
                                return exchange.counting(other.stored, output)
        if pause is None:
            return output
        await asyncio.sleep(pause)


def stream(
    exchange: Exchange[M],
    open_turn: Callable[[str | None], SyncTurn[M]],
    model: Callable[[list[M]], Iterator[Any]],
) -> Generator[Any, None, None]:
    """The chunks of a model's output as they come; its turn is stored before the stream ends.

    Raises:
        as `run`, before the first chunk or after the last one.
    """
    while True:
        pause: float | None = None
        with suppress(_Unsaved), open_turn(exchange.key) as turn:
            stored = turn.stored
            if exchange.resumes(stored):
                with open_turn(exchange.turn_key) as other:
                    stored = other.stored
            if exchange.begin(turn, stored):
                yield from exchange.stored_chunks(stored)
                return
            if exchange.brought(turn):
                try:
                    turn.commit(idempotency_key=exchange.input_key)
                except MemoryRedisError as error:
                    pause = exchange.refused(error)
                    raise _Unsaved from error
                exchange.input_stored(turn)
            past = exchange.seen(turn)
            chunks: list[Any] = []
            try:
                with exchange.inside():
                    source = iter(model(past))
                try:
                    while True:
                        with exchange.inside():
                            chunk = next(source, _END)
                        if chunk is _END:
                            break
                        chunks.append(chunk)
                        yield chunk
                finally:
                    if isinstance(source, Generator):
                        source.close()
            except BaseException:
                if exchange.broken_off(turn, chunks):
                    try:
                        turn.commit(idempotency_key=exchange.part_key(turn))
                    except MemoryRedisError as error:
                        exchange.not_kept(error)
                    finally:
                        exchange.interrupted(turn)
                raise
            finally:
                exchange.over()
            output = chunks
            while True:
                try:
                    output = exchange.output_of(chunks)
                    exchange.answered(turn, output)
                    turn.commit(idempotency_key=exchange.turn_key)
                except MemoryRedisError as error:
                    pause = exchange.failed(turn, error, output, streamed=bool(chunks))
                    raise _Unsaved from error
                except BaseException:
                    exchange.interrupted(turn)
                    raise
                if not exchange.committed(turn):
                    return
                with _given(output), open_turn(exchange.turn_key) as other:
                    if not exchange.overtaken(other.stored):
                        exchange.counting(other.stored, output)
                        return
        if pause is None:
            return
        time.sleep(pause)


async def astream(
    exchange: Exchange[M],
    open_turn: Callable[[str | None], AwaitedTurn[M]],
    model: Callable[[list[M]], AsyncIterator[Any]],
) -> AsyncGenerator[Any, None]:
    """As `stream`."""
    while True:
        pause: float | None = None
        with suppress(_Unsaved):
            async with open_turn(exchange.key) as turn:
                stored = turn.stored
                if exchange.resumes(stored):
                    async with open_turn(exchange.turn_key) as other:
                        stored = other.stored
                if exchange.begin(turn, stored):
                    for chunk in exchange.stored_chunks(stored):
                        yield chunk
                    return
                if exchange.brought(turn):
                    try:
                        await turn.commit(idempotency_key=exchange.input_key)
                    except MemoryRedisError as error:
                        pause = exchange.refused(error)
                        raise _Unsaved from error
                    exchange.input_stored(turn)
                past = exchange.seen(turn)
                chunks: list[Any] = []
                try:
                    with exchange.inside():
                        source = aiter(model(past))
                    try:
                        while True:
                            with exchange.inside():
                                chunk = await anext(source, _END)
                            if chunk is _END:
                                break
                            chunks.append(chunk)
                            yield chunk
                    finally:
                        if isinstance(source, AsyncGenerator):
                            await source.aclose()
                except BaseException:
                    if exchange.broken_off(turn, chunks):
                        try:
                            await turn.commit(idempotency_key=exchange.part_key(turn))
                        except MemoryRedisError as error:
                            exchange.not_kept(error)
                        finally:
                            exchange.interrupted(turn)
                    raise
                finally:
                    exchange.over()
                output = chunks
                while True:
                    try:
                        output = exchange.output_of(chunks)
                        exchange.answered(turn, output)
                        await turn.commit(idempotency_key=exchange.turn_key)
                    except MemoryRedisError as error:
                        pause = exchange.failed(turn, error, output, streamed=bool(chunks))
                        raise _Unsaved from error
                    except BaseException:
                        exchange.interrupted(turn)
                        raise
                    if not exchange.committed(turn):
                        return
                    with _given(output):
                        async with open_turn(exchange.turn_key) as other:
                            if not exchange.overtaken(other.stored):
                                exchange.counting(other.stored, output)
                                return
        if pause is None:
            return
        await asyncio.sleep(pause)
