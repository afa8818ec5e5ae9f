"""A call as LangChain traces it: callbacks see its begin and its end, and what it calls as its children.

`RunnableLambda` does the same, and inspects what it runs several times a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    patch_config,
    set_config_context,
    var_child_runnable_config,
)
from langchain_core.runnables.utils import coro_with_context


def traced(config: RunnableConfig, value: Any, call: Callable[[RunnableConfig], Any]) -> Any:
    """What a call gives.

    Args:
        config: the run's own, complete; its `run_name` is the name that callbacks see.

        value: what they see as its input.

        call: takes the config for what it calls.
    """
    run = get_callback_manager_for_config(config).on_chain_start(
        None, value, name=config.get("run_name"), run_id=config.pop("run_id", None)
    )
    try:
        inner = patch_config(config, callbacks=run.get_child())
        with set_config_context(inner) as context:
            output = context.run(call, inner)
    except BaseException as error:
        run.on_chain_error(error)
        raise
    run.on_chain_end(output)
    return output


async def atraced(
    config: RunnableConfig, value: Any, call: Callable[[RunnableConfig], Awaitable[Any]]
) -> Any:
    """As `traced`."""
    run = await get_async_callback_manager_for_config(config).on_chain_start(
        None, value, name=config.get("run_name"), run_id=config.pop("run_id", None)
    )
    try:
        inner = patch_config(config, callbacks=run.get_child())
        with set_config_context(inner) as context:
            output = await coro_with_context(call(inner), context)
    except BaseException as error:
        await run.on_chain_error(error)
        raise
    await run.on_chain_end(output)
    return output


@contextmanager
def unseen() -> Iterator[None]:
    """While something is at work that is no part of an answer, such as a model that makes a summary.

    The callbacks, events and traces of the call around it do not show it. All else that the call's config
    says (tags, metadata, `configurable`) reaches it.
    """
    from langsmith.run_helpers import get_tracing_context, tracing_context  # slow; LangChain has it by now

    around = var_child_runnable_config.get()
    token = var_child_runnable_config.set(None if around is None else {**around, "callbacks": None})
    of_the_call = ("parent", "distributed_parent_id")
    tracing = {name: value for name, value in get_tracing_context().items() if name not in of_the_call}
    try:
        with tracing_context(**tracing, parent=False):
            yield
    finally:
        with suppress(ValueError):  # a coroutine that nobody finished is closed in another context
            var_child_runnable_config.reset(token)
