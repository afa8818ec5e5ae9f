"""What a `RunnableWithMessageHistory` is made of, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from langchain_core.messages import BaseMessage
from langchain_core.runnables import (
    ConfigurableFieldSpec,
    Runnable,
    RunnableConfig,
    RunnableSerializable,
)
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.graph import Graph
from langchain_core.runnables.utils import get_unique_config_specs
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, create_model

from memory_redis.dictionaries import Keys
from memory_redis.langchain.sessions import Sessions
from memory_redis.options import OnCorrupt
from memory_redis.rules import OnConflict, OnSaveError, Partial, Rules, SaveInput
from memory_redis.toolcalls import Unanswered
from memory_redis.windows import Window

ConfigFactory = Callable[[RunnableConfig], RunnableConfig]


class Declared(RunnableSerializable[Any, Any]):
    """The fields and the schemas; running is the subclass's."""

    runnable: Runnable[Any, Any]
    get_session_history: Any = Field(exclude=True, repr=False)
    input_messages_key: str | None = None
    output_messages_key: str | None = None
    history_messages_key: str | None = None
    history_factory_config: Sequence[ConfigurableFieldSpec] | None = None
    default_session: str | None = None
    on_conflict: OnConflict = "append"
    max_tries: int = 2
    save_input: SaveInput = "after"
    on_save_error: OnSaveError = "raise"
    partial: Partial = "drop"
    window: Window | None = None
    unanswered: Unanswered = "drop"
    on_corrupt: OnCorrupt = "skip"
    kwargs: Mapping[str, Any] = Field(default_factory=dict)
    config: RunnableConfig = Field(default_factory=lambda: RunnableConfig())
    config_factories: list[ConfigFactory] = Field(default_factory=list)
    custom_input_type: Any | None = None
    custom_output_type: Any | None = None

    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())

    _keys: Keys = PrivateAttr()
    _rules: Rules = PrivateAttr()
    _sessions: Sessions = PrivateAttr()

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """What goes in."""
        if self.custom_input_type is not None:
            return self.custom_input_type
        return Sequence[BaseMessage] if self.input_messages_key is None else dict[str, Any]

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """What comes out: what comes out of the inner runnable."""
        return self.runnable.OutputType if self.custom_output_type is None else self.custom_output_type

    def get_input_schema(self, config: RunnableConfig | None = None) -> Any:
        """The input as a pydantic model: messages, or a dictionary with the key of the new ones."""
        name = self.get_name("Input")
        if self.custom_input_type is not None:
            return super().get_input_schema(config)
        if self.input_messages_key is None:
            return create_model(name, __base__=RootModel[Sequence[BaseMessage]])
        kind: Any = Sequence[BaseMessage]
        if self.history_messages_key is not None:
            kind = str | BaseMessage | Sequence[BaseMessage]
        fields: Any = {self.input_messages_key: (kind, ...)}
        return create_model(name, **fields)

    def get_output_schema(self, config: RunnableConfig | None = None) -> Any:
        """The output as a pydantic model: that of the inner runnable."""
        if self.custom_output_type is not None:
            return super().get_output_schema(config)
        return self.runnable.get_output_schema(merge_configs(self.config, config))

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What a config may say: the conversation, and what the inner runnable knows."""
        return get_unique_config_specs([*self.runnable.config_specs, *self._sessions.source.specs])

    def get_graph(self, config: RunnableConfig | None = None) -> Graph:
        """The graph of the inner runnable; no history is opened."""
        return self.runnable.get_graph(merge_configs(self.config, config))

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """A tool of what is said to the inner runnable; of a text, where no keys or types are named."""
        named = args_schema or arg_types or self.input_messages_key or self.custom_input_type
        if not named and self.runnable.get_input_jsonschema().get("type") != "object":
            return self.with_types(input_type=str).as_tool(name=name, description=description)
        return super().as_tool(args_schema, name=name, description=description, arg_types=arg_types)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """A copy that shares the memory, or the function that gives histories: neither is data."""
        memo = {} if memo is None else memo
        memo[id(self.get_session_history)] = self.get_session_history
        return super().__deepcopy__(memo)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """It is not: a memory or a function cannot be read back from JSON."""
        return False

    def __repr__(self) -> str:
        return f"{self.get_name()}(runnable={self.runnable.get_name()})"

    __str__ = __repr__
