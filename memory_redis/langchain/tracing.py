"""A call as LangChain traces it: callbacks see its begin and its end, and what it calls as its children.

`RunnableLambda` does the same, and inspects what it runs several times a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    patch_config,
    set_config_context,
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
