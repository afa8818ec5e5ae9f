"""Walks an exchange over turns: a call or a stream, sync or asyncio, the same lines four times.

Nothing here decides anything but the order: load, input, model, answer, commit, and again. A turn
that was not saved is left by an exception, so that leaving it commits nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from typing import Any, Final

from memory_redis.errors import MemoryRedisError
from memory_redis.exchanges import AwaitedTurn, Exchange, M, SyncTurn

_END: Final = object()


class _Unsaved(Exception):
    """Leaves a turn that was not saved, so that nothing more of it is stored."""


def run(exchange: Exchange[M], open_turn: Callable[[], SyncTurn[M]], model: Callable[[list[M]], Any]) -> Any:
    """The output of a model, its turn stored.

    Raises:
        InvalidMessage: the input cannot be stored; the model was not run.
        ConflictError, HistoryNotSaved: see `Exchange.failed`.
    """
    while True:
        pause: float | None = None
        output: Any = None
        with suppress(_Unsaved), open_turn() as turn:
            if exchange.begin(turn):
                return exchange.from_stored(turn.stored or [])
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
            try:
                exchange.answered(turn, output)
                turn.commit()
            except MemoryRedisError as error:
                pause = exchange.failed(turn, error, output)
                raise _Unsaved from error
            if not exchange.committed(turn):
                return output
            break
        if pause is None:
            return output
        time.sleep(pause)
    try:
        with open_turn() as turn:
            return exchange.counting(turn, output)
    except MemoryRedisError as error:
        error.output = output
        raise


async def arun(
    exchange: Exchange[M],
    open_turn: Callable[[], AwaitedTurn[M]],
    model: Callable[[list[M]], Awaitable[Any]],
) -> Any:
    """As `run`."""
    while True:
        pause: float | None = None
        output: Any = None
        with suppress(_Unsaved):
            async with open_turn() as turn:
                if exchange.begin(turn):
                    return exchange.from_stored(turn.stored or [])
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
                try:
                    exchange.answered(turn, output)
                    await turn.commit()
                except MemoryRedisError as error:
                    pause = exchange.failed(turn, error, output)
                    raise _Unsaved from error
                if not exchange.committed(turn):
                    return output
                break
        if pause is None:
            return output
        await asyncio.sleep(pause)
    try:
        async with open_turn() as turn:
            return exchange.counting(turn, output)
    except MemoryRedisError as error:
        error.output = output
        raise


def stream(
    exchange: Exchange[M], open_turn: Callable[[], SyncTurn[M]], model: Callable[[list[M]], Iterator[Any]]
) -> Generator[Any, None, None]:
    """The chunks of a model's output as they come; its turn is stored before the stream ends.

    Raises:
        as `run`, before the first chunk or after the last one.
    """
    while True:
        pause: float | None = None
        with suppress(_Unsaved), open_turn() as turn:
            if exchange.begin(turn):
                yield from exchange.stored_chunks(turn)
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
                        turn.commit(idempotency_key=exchange.part_key)
                        exchange.committed(turn)
                    except MemoryRedisError as error:
                        exchange.not_kept(error)
                raise
            finally:
                exchange.over()
            output = chunks
            try:
                output = exchange.output_of(chunks)
                exchange.answered(turn, output)
                turn.commit()
            except MemoryRedisError as error:
                pause = exchange.failed(turn, error, output, streamed=bool(chunks))
                raise _Unsaved from error
            exchange.committed(turn)
        if pause is None:
            return
        time.sleep(pause)


async def astream(
    exchange: Exchange[M],
    open_turn: Callable[[], AwaitedTurn[M]],
    model: Callable[[list[M]], AsyncIterator[Any]],
) -> AsyncGenerator[Any, None]:
    """As `stream`."""
    while True:
        pause: float | None = None
        with suppress(_Unsaved):
            async with open_turn() as turn:
                if exchange.begin(turn):
                    for chunk in exchange.stored_chunks(turn):
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
                            await turn.commit(idempotency_key=exchange.part_key)
                            exchange.committed(turn)
                        except MemoryRedisError as error:
                            exchange.not_kept(error)
                    raise
                finally:
                    exchange.over()
                output = chunks
                try:
                    output = exchange.output_of(chunks)
                    exchange.answered(turn, output)
                    await turn.commit()
                except MemoryRedisError as error:
                    pause = exchange.failed(turn, error, output, streamed=bool(chunks))
                    raise _Unsaved from error
                exchange.committed(turn)
        if pause is None:
            return
        await asyncio.sleep(pause)
