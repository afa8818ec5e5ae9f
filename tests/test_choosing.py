"""The set-ups that docs/choosing.md recommends do what it says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import memory_redis
from memory_redis import APPROXIMATE, BYTES_4, StoredMessage, TurnReport, ai, human
from tests.scenarios.stored import call, orphans, result, texts
from tests.support.rows import ROOT
from tests.support.servers import Server
from tests.support.timeline import grow_older

PAGE = (ROOT / "docs" / "choosing.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
DAY = 24 * 60

Run = Callable[..., dict[str, Any]]


class Model:
    """Gives what it was told to give, and keeps what it was shown."""

    def __init__(self, answer: Any = "Yes.") -> None:
        self.answer, self.seen = answer, list[list[StoredMessage]]()
        self.meanwhile: Callable[[], object] | None = None

    def __call__(self, messages: list[StoredMessage]) -> Any:
        self.seen.append(messages)
        if self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        return self.answer


@pytest.fixture
def run(valkey: Server, namespace: str) -> Iterator[Run]:
    """Runs the code of a section; its memory is closed at the end."""
    made: list[Any] = []

    def section(title: str, **names: Any) -> dict[str, Any]:
        [code] = re.findall(r"```python\n(.*?)```", SECTIONS[title], re.DOTALL)
        code = re.sub(r"from_url\((\s*)url", r"from_url(\1url, namespace=namespace", code)
        scope: dict[str, Any] = {name: getattr(memory_redis, name) for name in memory_redis.__all__}
        scope |= {"url": valkey.url, "namespace": namespace, **names}
        exec(compile(code, "docs/choosing.md", "exec"), scope)
        made.append(scope["memory"])
        return scope

    yield section
    for memory in made:
        memory.close()


@pytest.fixture
def pass_by(valkey: Server, namespace: str) -> Iterator[Callable[[int], None]]:
    """Lets minutes pass."""
    with redis.Redis.from_url(valkey.url) as raw:
        yield lambda minutes: grow_older(raw, namespace, minutes)


def test_every_bot_of_the_table_has_its_set_up() -> None:
    """Each row leads to a section with code, and all code is in those."""
    linked = re.findall(r"^\| \[.+?\]\(#(.+?)\)", PAGE, re.MULTILINE)
    titles = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"): title for title in SECTIONS}
    with_code = [anchor for anchor, title in titles.items() if "```python" in SECTIONS[title]]
    assert linked == with_code
    assert PAGE.count("```python") == len(with_code)


def test_support_sees_ten_turns(run: Run) -> None:
    """All messages of the last ten turns; a case that is pinned stays open."""
    model = Model()
    chat, memory = (run("Support", model=model)[name] for name in ("chat", "memory"))
    history = memory.history("ann", "support-42")
    for number in range(12):
        history.append(human(f"{number}, first of all"))
        chat(f"{number}, and then", user_id="ann", conversation_id="support-42")
    assert texts(model.seen[-1])[0] == "2, first of all"
    assert len(model.seen[-1]) == 9 * 3 + 2
    assert 6.9 < history.expire_in() / 86_400 <= 7
    assert history.pin()
    history.append(human("Still here"))
    assert history.expire_in() is None


def test_an_agent_sees_whole_exchanges(run: Run) -> None:
    """As many messages as the budget has room for, from a question on, no result without its call."""
    model = Model()
    agent = run("An agent with tools", model=model)["agent"]
    for number in range(12):
        model.answer = [call(f"c{number}", text="x" * 8000), result(f"c{number}"), ai("y" * 400)]
        agent(f"{number}?", user_id="ann", conversation_id="c1")
    past = model.seen[-1][:-1]
    assert past[0].type == "human"
    assert orphans(past) == []
    assert len(past) == 4 * 7
    cost = sum(map(APPROXIMATE, past))
    assert cost <= 16_000 < cost + cost / 7


def test_a_companion_keeps_a_summary_and_the_newest_words(run: Run) -> None:
    """At most 4,000 tokens, and what went before as one message in front; no conversation ends."""
    model, summarise = Model("z" * 1200), Model("They have talked for long.")
    scope = run("A companion, for years", model=model, summarise=summarise)
    for number in range(20):
        scope["chat"](f"{number} " + "w" * 1198, user_id="ann", conversation_id="c1")
    first, *rest = scope["store"].load(("ann", "c1"))
    assert first.text == "Summary of earlier conversation: They have talked for long."
    assert sum(map(BYTES_4, rest)) == 4 * 600
    assert len(summarise.seen) == 4  # after turns 7, 11, 15 and 19 of 600 tokens each
    assert scope["memory"].history("ann", "c1").expire_in() is None


def test_an_anonymous_chat_lasts_as_long_as_its_visits(run: Run, pass_by: Callable[[int], None]) -> None:
    """Half an hour after the last load, a day at most, whatever the visits."""
    scope = run("An anonymous web chat", model=Model(), cookie="7f3a")
    session = scope["memory"].session("7f3a")
    assert scope["answer"] == "Yes."
    for _ in range(71):
        pass_by(20)
        assert len(session.load().messages) == 2
    assert session.expire_in() < 20 * 60 + 1
    pass_by(20)
    assert not session.exists()


def test_a_group_is_answered_again_if_somebody_was_faster(run: Run) -> None:
    """The model answers what there is then; names are stored."""
    model = Model()
    scope = run("A group, or a pool of workers", model=model)
    history, report = scope["memory"].history("team-7", "general"), TurnReport()
    model.meanwhile = lambda: history.append(human("I do", name="eve"))
    scope["chat"]("Well?", user_id="team-7", conversation_id="general", report=report)
    assert report.tries == 2
    assert texts(model.seen[-1]) == ["Who brings the cake?", "Yes.", "I do", "Well?"]
    assert [one.data.get("name") for one in model.seen[-1]] == ["bob", None, "eve", None]


def test_rules_on_storage_are_kept(run: Run, pass_by: Callable[[int], None]) -> None:
    """Seven days are shown, what is older than fifteen goes with an append, all with fifteen quiet days."""
    scope = run("Rules on storage", model=Model())
    history = scope["memory"].history("ann", "c1")

    def chat(text: str) -> None:
        scope["chat"](text, user_id="ann", conversation_id="c1")

    chat("first")
    pass_by(8 * DAY)
    chat("second")
    assert texts(history.load()) == ["second", "Yes."]
    assert history.count() == 4
    pass_by(8 * DAY)
    assert history.count() == 4
    chat("third")
    assert history.count() == 4
    pass_by(15 * DAY - 1)
    assert history.exists()
    pass_by(2)
    assert not history.exists()


def test_rules_on_storage_bound_its_size(run: Run, valkey: Server, namespace: str) -> None:
    """A million bytes of records at most; on demand all of a user goes."""
    memory = run("Rules on storage", model=Model())["memory"]
    history = memory.history("ann", "c1")
    for number in range(12):
        history.append(human(f"{number}" + "x" * 99_000))
    with redis.Redis.from_url(valkey.url) as raw:
        [key] = raw.scan_iter(match=f"{namespace}:*", count=1000, _type="list")
        stored = sum(map(len, raw.lrange(key, 0, -1)))
        assert 900_000 < stored <= 1_000_000
        assert memory.forget("ann").conversations == 1
        assert not raw.exists(key)
