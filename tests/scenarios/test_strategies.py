"""Memory strategies: what each shows of a session, what it leaves stored, and how they stack."""

from __future__ import annotations

from typing import Any

import pytest

from memory_redis import (
    APPROXIMATE,
    BYTES_4_PLUS_1,
    AllMessages,
    InvalidId,
    InvalidMessage,
    InvalidSetting,
    LastMessages,
    LastTurns,
    Since,
    SlidingExpiry,
    StoredMessage,
    TokenBudget,
    ai,
    human,
    system,
)
from tests.conftest import MakeMemory
from tests.scenarios.chats import one_server
from tests.scenarios.remembering import (
    BUFFER,
    IN_FRONT,
    SUMMARY,
    SUMMARY_BUFFER,
    TOKENS,
    WINDOW,
    Model,
    over,
)
from tests.scenarios.stored import call, eventually, orphans, result, take_turn, texts
from tests.support.ids import shown

pytestmark = pytest.mark.anyio

ANN = ("ann", "c1")


def numbered(count: int, first: int = 0) -> list[StoredMessage]:
    """Messages "0", "1", …, of a human and a model in turn."""
    return [(human, ai)[number % 2](str(number)) for number in range(first, first + count)]


EACH: dict[str, Any] = {
    BUFFER: lambda store: over(store, BUFFER),
    WINDOW: lambda store: over(store, WINDOW, 10),
    TOKENS: lambda store: over(store, TOKENS, 1000),
    SUMMARY: lambda store: over(store, SUMMARY, Model(), 10),
    SUMMARY_BUFFER: lambda store: over(store, SUMMARY_BUFFER, Model(), 1000),
}


@pytest.mark.parametrize("name", EACH)
async def test_a_strategy_appends_loads_and_clears_by_session(memory: MakeMemory, name: str) -> None:
    """R81: of a session that nobody knows it loads nothing, and clears nothing."""
    one = memory()
    store = EACH[name](one)
    assert await store.load("s1") == []
    assert await store.clear("nobody's") == 0
    version = await store.append("s1", human("Hi"))
    assert version.number == 1
    await store.append("s1", ai("Hello"), human("Bye"))
    assert await store.load("s1") == [human("Hi"), ai("Hello"), human("Bye")]
    assert await store.load("s2") == []
    assert await one.session("s1").count() == 3
    assert await store.clear("s1") == 3
    assert await store.load("s1") == []
    assert await one.session("s1").exists() is False


@pytest.mark.parametrize("name", EACH)
async def test_a_session_may_be_a_conversation_of_a_user(memory: MakeMemory, name: str) -> None:
    """R81, R24: a pair of ids; it is the user's own, listed and with the user's expiry."""
    one = memory(expiry=lambda user: SlidingExpiry(60 if user == "ann" else 600))
    store = EACH[name](one)
    await store.append(ANN, *numbered(2))
    await store.append("c1", human("of nobody"))
    assert texts(await store.load(ANN)) == texts(await store.load(["ann", "c1"])) == ["0", "1"]
    assert texts(await store.history(*ANN).load()) == ["0", "1"]
    assert texts(await store.load("c1")) == texts(await store.session("c1").load()) == ["of nobody"]
    assert 59 < await store.history(*ANN).expire_in() <= 60
    assert 599 < await store.session("c1").expire_in() <= 600
    assert [info.conversation_id async for info in one.conversations("ann")] == ["c1"]
    assert await store.clear(ANN) == 2


@one_server
@pytest.mark.parametrize(
    "session",
    [
        "",
        None,
        5,
        b"ab",
        (),
        ("ann",),
        ("ann", "c1", "x"),
        (None, "c1"),
        ("ann", None),
        ("", "c1"),
        ("ann", ""),
        {},
    ],
    ids=repr,
)
async def test_what_is_no_session_is_refused(memory: MakeMemory, session: Any) -> None:
    """R81, R23: never one that somebody else has too."""
    store = over(memory(), WINDOW, 3)
    for method, messages in (("append", [human("x")]), ("load", []), ("clear", [])):
        with pytest.raises(InvalidId):
            await getattr(store, method)(session, *messages)
    with pytest.raises(InvalidId):
        store.history(None, "c1")


@one_server
async def test_an_append_of_nothing_is_refused(memory: MakeMemory) -> None:
    """R81: as by a history."""
    with pytest.raises(InvalidMessage):
        await over(memory(), BUFFER).append("s1")


async def test_the_buffer_passes_everything_through(coded: MakeMemory) -> None:
    """R89: what the store holds, whatever window the memory has for its own loads."""
    one = coded()
    store = over(one, BUFFER)
    await store.append("s1", *numbered(50))
    assert await store.load("s1") == (await one.session("s1").load()).messages == numbered(50)
    narrow = coded(window=LastMessages(2))
    assert await over(narrow, BUFFER).load("s1") == numbered(50)


async def test_a_window_shows_the_last_n_messages(coded: MakeMemory) -> None:
    """R90: messages, not pairs; all of them where there are no more than n, none for 0."""
    one = coded()
    await one.session("s1").append(*numbered(6))
    for n, first in ((0, 6), (1, 5), (5, 1), (6, 0), (7, 0), (10**9, 0)):
        store = over(one, WINDOW, n)
        assert await store.load("s1") == numbered(6)[first:], n
        assert texts(await store.session("s1").load()) == texts(await store.load("s1"))


async def test_a_window_stores_all_and_clears_all(memory: MakeMemory) -> None:
    """R90: the full history stays readable below; a clear through the strategy clears it below."""
    one = memory()
    store = over(one, WINDOW, 2)
    for message in numbered(7):
        await store.append("s1", message)
    history = one.session("s1")
    assert await history.count() == 7
    assert (await history.load()).messages == numbered(7)
    assert [message.text async for message in store.session("s1").iterate()] == list("0123456")
    assert await store.clear("s1") == 7
    assert (await history.load()).messages == []


async def test_a_window_of_one_session_is_no_window_of_another(memory: MakeMemory) -> None:
    """R90: sessions share nothing."""
    store = over(memory(), WINDOW, 2)
    await store.append("s1", *numbered(5))
    await store.append("s2", human("x"))
    assert texts(await store.load("s1")) == ["3", "4"]
    assert texts(await store.load("s2")) == ["x"]


SIZES = [(3, 1), (4, 2), (40, 11), (0, 1), (5, 2)]
"""Bytes of a text, and what it costs: bytes // 4 + 1."""


BUDGETS = {0: 0, 1: 0, 2: 1, 3: 2, 13: 2, 14: 3, 15: 3, 16: 4, 17: 5, 10**9: 5}
"""How many of the newest of them have room in it."""


async def test_a_token_buffer_shows_what_its_budget_allows(coded: MakeMemory) -> None:
    """R91: bytes // 4 + 1 each, to the token; it may show nothing, and stores all."""
    one = coded()
    messages = [human("x" * size) for size, _ in SIZES]
    assert [BYTES_4_PLUS_1(message) for message in messages] == [cost for _, cost in SIZES]
    await over(one, TOKENS, 0).append("s1", *messages)
    for budget, count in BUDGETS.items():
        assert await over(one, TOKENS, budget).load("s1") == messages[5 - count :], budget
    assert await one.session("s1").count() == 5


async def test_the_bytes_of_a_text_count_not_its_letters(coded: MakeMemory) -> None:
    """R91: UTF-8."""
    store = over(coded(), TOKENS, 3)
    await store.append("s1", human("é" * 4))
    assert await store.load("s1") == [human("é" * 4)]
    await store.append("s1", human("é" * 6))
    assert await store.load("s1") == []


async def test_tool_calls_cost_nothing_and_stay_with_their_results(coded: MakeMemory) -> None:
    """R91: the text alone is counted; a result is not shown without its call."""
    one = coded()
    await one.session("s1").append(human("q"), call("a", "b"), result("a"), result("b"), ai("done"))
    counts = {budget: texts(await over(one, TOKENS, budget).load("s1")) for budget in range(1, 13)}
    # "done" costs 2, each result 3, the calls 1, "q" 1
    exchange = ["", "result of a", "result of b", "done"]
    assert counts[1] == []
    assert [counts[budget] for budget in range(2, 9)] == [["done"]] * 7
    assert counts[9] == exchange
    assert counts[10] == counts[12] == ["q", *exchange]
    for budget in counts:
        assert orphans(await over(one, TOKENS, budget).load("s1")) == []


async def test_a_token_buffer_takes_any_counter(coded: MakeMemory) -> None:
    """R91: one whose counts are stored, or a function."""
    one = coded()
    await one.session("s1").append(*numbered(6))
    assert (APPROXIMATE(human("4")), APPROXIMATE(ai("5"))) == (5, 6)
    assert texts(await over(one, TOKENS, 11, counter=APPROXIMATE).load("s1")) == ["4", "5"]
    assert texts(await over(one, TOKENS, 10, counter=APPROXIMATE).load("s1")) == ["5"]
    assert texts(await over(one, TOKENS, 3, counter=lambda message: 1).load("s1")) == ["3", "4", "5"]
    weights = over(one, TOKENS, 9, counter=lambda message: int(message.text))
    assert texts(await weights.load("s1")) == ["4", "5"]


async def test_histories_of_a_strategy_show_what_it_shows(memory: MakeMemory) -> None:
    """R87: loads and turns; versions, counts and pages are those of what is stored."""
    one = memory()
    history = over(one, WINDOW, 2).history(*ANN)
    version = await history.append(*numbered(5))
    snapshot = await history.load()
    assert (texts(snapshot), snapshot.version, await history.count()) == (["3", "4"], version, 5)
    async with history.turn(on_conflict="raise") as turn:
        assert texts(turn.messages) == ["3", "4"]
        turn.add(human("5"))
    assert turn.version.number == 6
    assert texts(await one.history(*ANN).load()) == list("012345")


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (AllMessages(), "2345"),
        (LastMessages(2), "45"),
        (LastMessages(9), "2345"),
        (LastMessages(0), ""),
        (LastTurns(1), "45"),
        (TokenBudget(3, BYTES_4_PLUS_1), "345"),
        (TokenBudget(2, BYTES_4_PLUS_1, oldest=True), "23"),
        (Since(hours=1), "2345"),
        (AllMessages(start_on="ai"), "345"),
    ],
    ids=repr,
)
async def test_a_window_of_a_call_is_a_window_on_what_is_shown(
    coded: MakeMemory, window: Any, expected: str
) -> None:
    """R87: no call sees more than the strategy shows."""
    history = over(coded(), WINDOW, 4).history(*ANN)
    await history.append(*numbered(6))
    assert "".join(texts(await history.load(window))) == expected
    turn = await take_turn(history, meanwhile=history.count, window=window)
    assert "".join(texts(turn.messages)) == expected


async def test_two_counters_are_two_limits(coded: MakeMemory) -> None:
    """R87, R91: a budget of a call, or of a strategy on top, need not count as the one below."""
    one = coded()
    inner = over(one, TOKENS, 4)
    await inner.append(ANN, *numbered(6))
    assert texts(await inner.history(*ANN).load(TokenBudget(11))) == ["4", "5"]
    assert texts(await inner.history(*ANN).load(TokenBudget(100))) == ["2", "3", "4", "5"]
    assert texts(await inner.history(*ANN).load(TokenBudget(100) & Since(hours=1))) == ["2", "3", "4", "5"]
    outer = over(inner, TOKENS, 3, counter=lambda message: 1)
    assert texts(await outer.load(ANN)) == ["3", "4", "5"]
    assert texts(await over(outer, WINDOW, 1).load(ANN)) == ["5"]
    assert texts(await over(over(inner, TOKENS, 9, counter=len_of), WINDOW, 9).load(ANN)) == [
        "2",
        "3",
        "4",
        "5",
    ]
    assert texts(await outer.history(*ANN).load(LastMessages(2))) == ["4", "5"]


def len_of(message: StoredMessage) -> int:
    return len(message.text)


async def test_the_age_that_a_call_asks_for_is_by_the_servers_clock(memory: MakeMemory) -> None:
    """R87: also where two counters are in the way."""
    history = over(memory(), TOKENS, 100).history(*ANN)
    await history.append(*numbered(2))
    window = TokenBudget(1000) & Since(0.03)
    await eventually(lambda: history_is_empty(history, window), "both are older than that")
    assert texts(await history.load(TokenBudget(1000) & Since(60))) == ["0", "1"]


async def history_is_empty(history: Any, window: Any) -> bool:
    return not (await history.load(window)).messages


async def test_a_window_over_a_token_buffer_is_both(memory: MakeMemory) -> None:
    """R90, R91: whichever is narrower."""
    one = memory()
    for n, budget, expected in ((2, 5, "45"), (5, 2, "45"), (9, 9, "012345"), (0, 9, ""), (9, 0, "")):
        store = over(over(one, TOKENS, budget), WINDOW, n)
        await store.clear("s1")
        await store.append("s1", *numbered(6))
        assert "".join(texts(await store.load("s1"))) == expected
        turned = over(over(one, WINDOW, n), TOKENS, budget)
        assert "".join(texts(await turned.load("s1"))) == expected


@pytest.mark.parametrize("name", EACH)
async def test_a_buffer_over_any_strategy_shows_what_that_shows(memory: MakeMemory, name: str) -> None:
    """R89: and the other way round it adds nothing."""
    one = memory()
    inner = over(over(one, BUFFER), WINDOW, 2) if name == WINDOW else EACH[name](one)
    outer = over(inner, BUFFER)
    await outer.append("s1", *numbered(5))
    assert await outer.load("s1") == await inner.load("s1")
    assert texts(await outer.load("s1")) == ["3", "4"] if name == WINDOW else list("01234")


async def test_a_window_over_a_summary_counts_it_as_a_message(memory: MakeMemory) -> None:
    """R90, R92: it is the first of what the strategy below shows; what is stored does not change."""
    model = Model("in short")
    inner = over(memory(), SUMMARY, model, 2)
    await over(inner, WINDOW, 1).append("s1", *numbered(5))
    shown_by = {n: texts(await over(inner, WINDOW, n).load("s1")) for n in range(5)}
    whole = [f"{IN_FRONT}in short", "3", "4"]
    assert shown_by == {0: [], 1: ["4"], 2: ["3", "4"], 3: whole, 4: whole}
    assert len(model.asked) == 1


async def test_a_token_buffer_over_a_summary_counts_it_too(memory: MakeMemory) -> None:
    """R91, R92: as the system message that it is."""
    inner = over(memory(), SUMMARY, Model("in short"), 2)
    await inner.append("s1", *numbered(5))
    cost = BYTES_4_PLUS_1(system(f"{IN_FRONT}in short"))
    assert texts(await over(inner, TOKENS, cost + 1).load("s1")) == ["3", "4"]
    assert len(await over(inner, TOKENS, cost + 2).load("s1")) == 3


async def test_a_summary_over_a_window_tells_of_all_messages(memory: MakeMemory) -> None:
    """R92: the window below limits what is shown of the messages, not what is summarised."""
    model = Model()
    store = over(over(memory(), WINDOW, 1), SUMMARY, model, 2)
    await store.append("s1", *numbered(5))
    assert model.told == [["human: 0", "ai: 1", "human: 2"]]
    assert texts(await store.load("s1")) == [f"{IN_FRONT}s1", "4"]
    assert texts(await over(store, BUFFER).load("s1")) == [f"{IN_FRONT}s1", "4"]


@pytest.mark.parametrize("name", [BUFFER, WINDOW, TOKENS])
async def test_who_makes_no_summary_shows_none(memory: MakeMemory, name: str) -> None:
    """R89 to R91: messages alone; the snapshot has the summary that another worker made."""
    one = memory()
    await over(one, SUMMARY, Model("in short"), 2).append("s1", *numbered(5))
    store = EACH[name](one)
    assert texts(await store.load("s1")) == ["3", "4"]
    assert (await store.session("s1").load()).summary == "in short"


async def test_a_window_of_a_call_limits_the_messages_and_the_summary_comes_on_top(
    memory: MakeMemory,
) -> None:
    """R87, R92: so a turn of few messages still knows what was said before."""
    history = over(memory(), SUMMARY, Model(), 2).history(*ANN)
    await history.append(*numbered(5))
    assert texts(await history.load(LastMessages(1))) == [f"{IN_FRONT}s1", "4"]
    assert texts(await history.load(LastMessages(0))) == [f"{IN_FRONT}s1"]
    assert texts(await history.load(LastTurns(1))) == [f"{IN_FRONT}s1", "4"]


@one_server
async def test_a_conversation_has_one_summary(memory: MakeMemory) -> None:
    """R92: two summarising strategies are not nested, whatever is between them."""
    for name, size in ((SUMMARY, 2), (SUMMARY_BUFFER, 100)):
        for other, other_size in ((SUMMARY, 2), (SUMMARY_BUFFER, 100)):
            inner = over(memory(), name, Model(), size)
            for between in (inner, over(inner, BUFFER), over(inner, WINDOW, 3)):
                with pytest.raises(InvalidSetting, match="two summarising"):
                    over(between, other, Model(), other_size)


@one_server
async def test_the_own_expiry_of_a_history_is_kept(memory: MakeMemory) -> None:
    """R81: as of a memory's histories."""
    store = over(memory(), SUMMARY, Model(), 1)
    for history in (
        store.history(*ANN, expiry=SlidingExpiry(60)),
        store.session("s1", expiry=SlidingExpiry(60)),
    ):
        await history.append(*numbered(5))
        assert 59 < await history.expire_in() <= 60
    with pytest.raises(InvalidSetting):
        store.history(*ANN, expiry=60)


@one_server
@pytest.mark.parametrize("window", [5, "all", LastMessages, None], ids=shown)
async def test_a_window_of_a_call_that_is_none_is_refused(memory: MakeMemory, window: Any) -> None:
    """R95: None is for the strategy's own."""
    history = over(memory(), WINDOW, 2).history(*ANN)
    if window is None:
        assert (await history.load(None)).messages == []
        return
    with pytest.raises(InvalidSetting):
        await history.load(window)
    with pytest.raises(InvalidSetting):
        history.turn(window=window)
