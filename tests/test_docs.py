"""What the documents show is run: the code of the README, and the ACL of docs/in-redis.md."""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import memory_redis
from memory_redis import RedisMemory, SlidingExpiry, StoredMessage, ai, human
from tests.support.servers import Binary, Server, binaries

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def model(messages: list[StoredMessage]) -> str:
    return f"You said: {messages[-1].text}"


async def async_model(messages: list[StoredMessage]) -> str:
    return model(messages)


def run(code: str, **names: Any) -> dict[str, Any]:
    """Run a block of the README with the public names at hand."""
    scope: dict[str, Any] = {name: getattr(memory_redis, name) for name in memory_redis.__all__} | names
    exec(compile(code, "README.md", "exec"), scope)
    return scope


def test_the_ten_lines_work(valkey: Server, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The sync example stores the greeting and the turn, and lists the conversation."""
    code = (
        BLOCKS[0]
        .replace("redis://localhost:6379/0", valkey.url)
        .replace('", expiry', f'", namespace="{namespace}", expiry')
    )
    history = run(code, model=model)["history"]
    texts = [message.text for message in history.load().messages]
    assert texts == ["Hi", "Hello, what can I do?", "Where is my parcel?", "You said: Where is my parcel?"]
    assert capsys.readouterr().out.startswith("support-42 4 ")


def test_the_ten_lines_work_with_asyncio(
    valkey: Server, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The asyncio example does the same."""
    code = BLOCKS[1].replace('"redis://localhost:6379/0"', f'"{valkey.url}", namespace="{namespace}"')
    head, _, body = code.partition("\n\n")
    scope = run(f"{head}\nasync def main():\n{textwrap.indent(body, '    ')}", model=async_model)
    asyncio.run(scope["main"]())
    assert capsys.readouterr().out == "You said: Where is my parcel?\n"


def test_a_model_remembers(valkey: Server, namespace: str) -> None:
    """The example of `with_history` stores two questions, each followed by its answer."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        run(BLOCKS[2], memory=memory)
        texts = [message.text for message in memory.history("ann", "support-42").load().messages]
    assert texts[::2] == ["Hi", "And my parcel?"]
    assert texts[1::2] == [
        "1 messages so far, the last is 'Hi'",
        "3 messages so far, the last is 'And my parcel?'",
    ]


def test_a_chain_remembers(valkey: Server, namespace: str) -> None:
    """The example of LangChain stores the question and the answer."""
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])
    chat_model = FakeListChatModel(responses=["On its way."])
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        run(BLOCKS[3], memory=memory, prompt=prompt, chat_model=chat_model)
        texts = [message.text for message in memory.history("ann", "support-42").load().messages]
    assert texts == ["Where is my parcel?", "On its way."]


def test_the_other_examples_work(valkey: Server, namespace: str) -> None:
    """An append against a version, and a memory with window, retention and expiry."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        history = memory.history("ann", "support-42")
        run(BLOCKS[4], history=history)
        assert history.count() == 1
    run(BLOCKS[5], url=valkey.url)


def test_a_strategy_takes_the_place_of_a_memory(valkey: Server, namespace: str) -> None:
    """The example of strategies shows a summary, once more than twice as many messages are stored as stay."""
    with RedisMemory.from_url(valkey.url, namespace=namespace) as memory:
        scope = run(BLOCKS[6], memory=memory, model=model, llm=lambda text: "They talk.")
        for number in range(11):
            scope["chat"](str(number), user_id="ann", conversation_id="support-42")
        shown = scope["store"].load(("ann", "support-42"))
    assert [message.text for message in shown[:2]] == ["Summary of earlier conversation: They talk.", "6"]
    assert len(shown) == 1 + 10
    assert len(BLOCKS) == 7, "a new example needs a test"


def test_every_file_that_the_documents_name_is_there() -> None:
    """No link of a document leads nowhere."""
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if not target.startswith("https://"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"


@pytest.mark.parametrize("database", [0, 1])
@pytest.mark.parametrize("binary", binaries(), ids=lambda binary: binary.version)
def test_the_user_that_the_documents_make_can_do_everything(binary: Binary, database: int) -> None:
    """The `ACL SETUSER` of docs/in-redis.md, word for word, suffices; and keys elsewhere are out of reach."""
    [line] = re.findall(r"^    (ACL SETUSER .*)$", (ROOT / "docs" / "in-redis.md").read_text(), re.MULTILINE)
    with Server(binary) as server:
        server.ask(*line.split())
        url = f"redis://bot:password@{server.host}:{server.port}/{database}"
        options: dict[str, Any] = {"expiry": SlidingExpiry(60, on_read=True)}
        with RedisMemory.from_url(url, retention=memory_redis.MaxMessages(3), **options) as memory:
            memory.ping()
            history = memory.history("ann", "c1")
            for number in range(5):
                history.append(human(str(number)), idempotency_key=str(number))
            with history.turn(idempotency_key="t") as turn:
                turn.add(ai("Hello"))
            assert [message.text for message in history.iterate()] == ["3", "4", "Hello"]
            assert history.settle(memory_redis.AppendId.new()) is None
            assert history.exists()
            assert history.count() == 3
            assert history.expire_in() is not None
            assert [info.messages for info in memory.conversations("ann")] == [3]
            windows = (memory_redis.TokenBudget(100), memory_redis.LastTurns(5), memory_redis.Since(60))
            assert [len(history.load(window).messages) for window in windows] == [3, 3, 3]
            assert history.touch()
            assert history.pin()
            assert history.expire(None)
            assert history.compact("They talked.", expected=history.load().version, keep=1) == 2
            assert history.clear() == 1
            store = memory_redis.ConversationSummaryMemory(memory, lambda messages: "They talked.", 0)
            store.append(("ann", "c1"), human("once more"))
            assert store.load(("ann", "c1"))[0].type == "system"
            history.append(human("again"))
            assert memory.forget("ann").messages == 1
        with RedisMemory.from_url(url) as memory:
            memory.session("s1").append(human("for ever"))
        with (
            RedisMemory.from_url(url, namespace="another") as memory,
            pytest.raises(memory_redis.AccessDenied, match="the keys"),
        ):
            memory.session("s1").append(human("not here"))
