"""From two pictures of who calls whom to the reasons of their difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.explain import ProfilingExplainer
from bisectorch.explain.assembly import Pair, Question, assemble, doubt, is_settled
from bisectorch.explain.profile import Overhead, Profile, by_context, corrected
from bisectorch.explain.sources import Definition
from bisectorch.model import Build, CodeChange, Explanation, Route, Workload
from profiles import builtin, call, operator, profile, python

BENCH = python("time_it", "bench.py", own=False)
FORWARD, HELPER, OTHER = python("Layer.forward"), python("helper"), python("other")
MICRO = 1e-6
TIMED = Workload("bench.time_it")
Files = dict[str, "list[Definition] | None"]


def defined(**digests: str) -> Files:
    """What pkg/layer.py defines: a digest a function (dots written as two underscores)."""
    rows = [(n.replace("__", "."), 1 + i, 2 + i, d) for i, (n, d) in enumerate(digests.items())]
    return {"pkg/layer.py": rows}


def explain(
    before: Profile,
    after: Profile,
    old: Files,
    new: Files,
    *,
    compiled_differs: bool = False,
    paths: tuple[str, ...] = (),
    workload: Workload = TIMED,
) -> Explanation:
    """One pair of processes that saw these profiles."""
    pair = Pair((before, after), ((before.plain_seconds,) * 3, (after.plain_seconds,) * 3))
    nothing = Explanation(workload.name, "a" * 40, "b" * 40)
    question = Question(nothing, workload, None, paths, compiled_differs)
    return assemble(question, [pair], (old, new))


def picture(*inside: object, forward: float = 2 * MICRO) -> Profile:
    """The benchmark calls the layer ten times; the layer calls what is given."""
    layer = call(FORWARD, 10, forward, *inside)  # type: ignore[arg-type]
    return profile(call(BENCH, 1, MICRO, layer))


def test_a_changed_function_answers_for_all_it_calls() -> None:
    """A new callee is part of the cause that its changed caller is, and named in it."""
    found = explain(
        picture(call(builtin("dot"), 1, 3 * MICRO)),
        picture(call(builtin("dot"), 1, 3 * MICRO), call(HELPER, 2, MICRO)),
        defined(Layer__forward="1"),
        defined(Layer__forward="2", helper="3"),
    )
    (cause,) = found.causes
    assert (cause.name, cause.change, cause.calls) == (
        "Layer.forward",
        CodeChange.CHANGED,
        (10, 10),
    )
    assert cause.seconds == pytest.approx(20 * MICRO)
    assert cause.share == pytest.approx(1)
    assert cause.why == "changed: calls helper now"
    assert cause.parts[0].name == "helper"
    assert cause.parts[0].calls == (0, 20)
    assert found.explained == pytest.approx(1)
    assert found.unexplained_seconds == pytest.approx(0, abs=1e-12)


def test_a_function_is_blamed_below_unchanged_ones() -> None:
    """What lies between the benchmark and the changed function is no cause."""
    wrapper = python("wrapper")

    def seen(seconds: float) -> Profile:
        inner = call(HELPER, 1, seconds)
        return profile(call(BENCH, 1, MICRO, call(wrapper, 1, MICRO, call(OTHER, 3, MICRO, inner))))

    found = explain(
        seen(1 * MICRO),
        seen(5 * MICRO),
        defined(wrapper="1", other="1", helper="1"),
        defined(wrapper="1", other="1", helper="2"),
    )
    (cause,) = found.causes
    assert cause.name == "helper"
    assert cause.why == "changed: its own code"
    assert cause.share == pytest.approx(1)


def test_a_changed_function_that_calls_more_often_says_so() -> None:
    """The same callees, another number of times."""
    found = explain(
        picture(call(builtin("dot"), 3, 3 * MICRO)),
        picture(call(builtin("dot"), 5, 3 * MICRO)),
        defined(Layer__forward="1"),
        defined(Layer__forward="2"),
    )
    assert found.causes[0].why == "changed: calls dot 5 times, not 3"


def test_the_same_function_in_two_places_is_one_cause() -> None:
    """Its contexts are added up."""

    def seen(seconds: float) -> Profile:
        inner = call(HELPER, 1, seconds)
        return profile(
            call(BENCH, 1, MICRO, call(FORWARD, 1, MICRO, inner), call(OTHER, 1, MICRO, inner))
        )

    same = {"Layer__forward": "1", "other": "1"}
    found = explain(
        seen(MICRO), seen(4 * MICRO), defined(helper="1", **same), defined(helper="2", **same)
    )
    (cause,) = found.causes
    assert cause.calls == (2, 2)
    assert cause.seconds == pytest.approx(6 * MICRO)


def test_a_gradient_that_became_a_python_function() -> None:
    """The engine is unchanged and calls Python now: the new function, in place of the old node."""
    backward = python("Layer.backward")
    engine, dispatch = builtin("run_backward"), python("apply", "torch/function.py")

    def seen(own: float, *callees: object) -> Profile:
        return profile(call(BENCH, 1, MICRO, call(engine, 10, own, *callees)))  # type: ignore[arg-type]

    before = replace(
        seen(9 * MICRO), operators=(operator("AddmmBackward0", 5 * MICRO), operator("add", MICRO))
    )
    python_call = call(dispatch, 1, MICRO, call(backward, 1, 8 * MICRO))
    after = replace(
        seen(4 * MICRO, python_call),
        operators=(operator("LayerBackward", 9 * MICRO), operator("add", MICRO)),
    )
    old, new = defined(Layer__forward="1"), defined(Layer__forward="2", Layer__backward="1")
    torch = {"torch/function.py": [("apply", 1, 2, "x")]}
    found = explain(before, after, {**old, **torch}, {**new, **torch})
    (cause,) = found.causes
    assert cause.name == "Layer.backward"
    assert cause.why == "Python function now, in place of AddmmBackward0"
    assert cause.seconds == pytest.approx(10 * (4 + 1 + 8 - 9) * MICRO)
    assert cause.calls == (0, 10)
    back = explain(after, before, {**new, **torch}, {**old, **torch})
    assert back.causes[0].name == "Layer.backward"
    assert back.causes[0].why == "gone, in its place AddmmBackward0"
    assert back.causes[0].share == pytest.approx(1)


def test_more_calls_of_an_unchanged_function_are_a_cause() -> None:
    """With nothing changed that ran, the callee that is called more often is named."""
    found = explain(
        picture(call(HELPER, 1, 5 * MICRO)),
        picture(call(HELPER, 3, 5 * MICRO)),
        defined(Layer__forward="1", helper="1"),
        defined(Layer__forward="1", helper="1"),
    )
    (cause,) = found.causes
    assert (cause.name, cause.calls) == ("helper", (10, 30))
    assert "called otherwise" in cause.why


def test_causes_that_work_against_the_step_come_last() -> None:
    """Shares are signed, sorted, and add up to what is explained."""
    found = explain(
        profile(call(BENCH, 1, MICRO, call(FORWARD, 1, MICRO), call(HELPER, 1, 9 * MICRO))),
        profile(call(BENCH, 1, MICRO, call(FORWARD, 1, 20 * MICRO), call(HELPER, 1, 2 * MICRO))),
        defined(Layer__forward="1", helper="1"),
        defined(Layer__forward="2", helper="2"),
    )
    assert [cause.name for cause in found.causes] == ["Layer.forward", "helper"]
    assert found.causes[0].share == pytest.approx(19 / 12)
    assert found.causes[1].share == pytest.approx(-7 / 12)
    assert found.explained_seconds == pytest.approx(found.step_seconds)


def test_compiled_code_is_blamed_only_where_it_differs() -> None:
    """The same calls take longer: the operator does, if the builds' compiled files differ."""
    same = defined(Layer__forward="1")

    def seen(seconds: float, addmm: float) -> Profile:
        return replace(
            picture(call(builtin("linear"), 1, seconds)),
            operators=(operator("aten::addmm", addmm, 10), operator("aten::t", MICRO, 10)),
        )

    before, after = seen(5 * MICRO, 40 * MICRO), seen(9 * MICRO, 90 * MICRO)
    found = explain(before, after, same, same, compiled_differs=True)
    (cause,) = found.causes
    assert (cause.name, cause.why) == ("aten::addmm", "takes longer")
    assert cause.seconds == pytest.approx(40 * MICRO), "no more than unchanged code grew by"
    (cause,) = explain(before, after, same, same, compiled_differs=False).causes
    assert cause.name == "linear"
    assert "what it is given may have changed" in cause.why


def test_compiled_code_without_operators_is_named_by_its_function() -> None:
    """Any project's C extension."""
    same = defined(Layer__forward="1")
    found = explain(
        picture(call(builtin("linear"), 1, 5 * MICRO)),
        picture(call(builtin("linear"), 1, 9 * MICRO)),
        same,
        same,
        compiled_differs=True,
    )
    assert [(cause.name, cause.why) for cause in found.causes] == [("linear", "takes longer")]


def test_noise_in_unchanged_code_stays_unexplained() -> None:
    """A few percent of drift in unchanged functions is nobody's fault."""
    drift = [picture(call(OTHER, 1, 50 * MICRO * d), call(HELPER, 1, MICRO)) for d in (1, 1.04)]
    slow = picture(call(OTHER, 1, 50 * MICRO * 1.04), call(HELPER, 1, 5 * MICRO))
    old = defined(Layer__forward="1", other="1", helper="1")
    new = defined(Layer__forward="1", other="1", helper="2")
    found = explain(drift[0], slow, old, new)
    assert [cause.name for cause in found.causes] == ["helper"]
    assert found.explained == pytest.approx(2 / 3, abs=0.01)
    assert found.unexplained_seconds == pytest.approx(20 * MICRO, rel=0.01)
    calm = explain(drift[0], drift[1], old, old)
    assert calm.causes == ()
    assert calm.reason == "nothing that ran differs enough to explain it"


def test_no_step_is_not_explained() -> None:
    """Equal builds have nothing to explain, and say so."""
    same = defined(Layer__forward="1")
    found = explain(picture(), picture(), same, same)
    assert found.causes == ()
    assert found.reason.startswith("no step of 1 %")
    assert found.functions


def test_other_metrics_than_time_are_listed_not_divided() -> None:
    """What a memory benchmark runs is told; its bytes are not put down to seconds."""
    found = explain(
        picture(),
        picture(call(HELPER, 1, MICRO)),
        defined(Layer__forward="1"),
        defined(Layer__forward="2", helper="1"),
        workload=Workload("bench.peakmem_it", unit="bytes", kind="peakmemory"),
    )
    assert found.causes == ()
    assert found.reason.startswith("bytes are measured")
    assert any(row.name == "helper" for row in found.functions)


def test_the_diff_is_lined_up_with_what_ran() -> None:
    """Executed files first, with the functions that changed and ran, and those that did not."""
    found = explain(
        picture(),
        picture(call(HELPER, 1, MICRO)),
        defined(Layer__forward="1", idle="1"),
        defined(Layer__forward="2", helper="1", idle="2"),
        paths=("docs/x.rst", "src/pkg/layer.py"),
    )
    first, second = found.touched
    assert first.path == "src/pkg/layer.py"
    assert first.executed
    assert first.functions == ("Layer.forward", "helper")
    assert first.idle == ("idle",)
    assert (second.path, second.executed) == ("docs/x.rst", False)


def test_the_profilers_cost_is_taken_off() -> None:
    """However much cProfile adds to calls and to Python code, the same functions cost the same."""
    overhead = Overhead(
        (0.3 * MICRO, 0.5 * MICRO),
        (0.2 * MICRO, 0.4 * MICRO),
        2.5,
        (0.2 * MICRO, 0.6 * MICRO),
        frozenset({"size"}),
    )
    inside = call(builtin("dot"), 3, 0.7 * MICRO), call(builtin("size"), 2, 0.1 * MICRO)
    shape = call(BENCH, 1, MICRO, call(FORWARD, 10, 2 * MICRO, *inside))
    bare, slowed = profile(shape), profile(shape, overhead=overhead)
    assert slowed.profiled_seconds > 2 * bare.plain_seconds
    for key, seconds in corrected(bare).items():
        assert corrected(slowed)[key] == pytest.approx(seconds)


def test_contexts_add_up_to_the_unprofiled_call() -> None:
    """An edge's time is shared by calls, and the sum is the level that was measured."""
    inner = call(HELPER, 2, 3 * MICRO)
    seen = profile(
        call(BENCH, 1, MICRO, call(FORWARD, 1, MICRO, inner), call(OTHER, 3, MICRO, inner))
    )
    placed, rest = by_context(seen, 50 * MICRO)
    assert sum(placed) == pytest.approx(50 * MICRO)
    assert rest == pytest.approx(0)
    by_caller = {
        seen.contexts[context.caller].spot.name: seconds / context.calls
        for context, seconds in zip(seen.contexts, placed, strict=True)
        if context.spot == HELPER
    }
    assert by_caller["Layer.forward"] == pytest.approx(by_caller["other"])


def test_levels_that_were_measured_well_are_kept() -> None:
    """A session's own levels rule; the profiler's own samples only say when they disagree."""
    before, after = picture(forward=2 * MICRO), picture(forward=4 * MICRO)
    pair = Pair((before, after), ((1.0, 1.0), (1.001, 1.001)))
    nothing = Explanation("bench.time_it", "a", "b")
    levels = (30 * MICRO, 50 * MICRO)
    question = Question(nothing, Workload("bench.time_it"), levels, (), False)
    files = defined(Layer__forward="1"), defined(Layer__forward="2")
    found = assemble(question, [pair], files)
    assert found.level_seconds == (30 * MICRO, 50 * MICRO)
    assert found.explained == pytest.approx(1, abs=0.05)
    assert any("quieter machine" in note for note in found.notes)


def pairs_of(
    step: float, wobble: float, count: int
) -> tuple[Question, list[Pair], tuple[Files, Files]]:
    """Pairs whose helper takes a step more, give or take a wobble that unchanged code takes off."""
    before = picture(call(OTHER, 1, 50 * MICRO))
    pairs = []
    for number in range(count):
        luck = wobble * (1 if number % 2 else -1)
        after = picture(call(OTHER, 1, (50 - luck) * MICRO), call(HELPER, 1, (step + luck) * MICRO))
        pairs.append(Pair((before, after), ((before.plain_seconds,), (after.plain_seconds,))))
    question = Question(Explanation("a", "b", "c"), TIMED, None, (), compiled_differs=False)
    old = defined(Layer__forward="1", other="1")
    return question, pairs, (old, defined(Layer__forward="1", other="1", helper="1"))


def test_a_large_step_needs_no_further_pair() -> None:
    """What memory's layout does to processes is small beside it."""
    question, pairs, files = pairs_of(25, 0.1, 2)
    assert is_settled(question, pairs, files)
    assert not any("chance" in note for note in assemble(question, pairs, files).notes)


def test_a_small_step_wants_more_pairs() -> None:
    """Even where two happen to agree; and as many as agree in the end, or are told of."""
    assert not is_settled(*pairs_of(1, 0, 2))
    assert is_settled(*pairs_of(2.5, 0, 5))
    assert not is_settled(*pairs_of(25, 10, 2))
    question, pairs, files = pairs_of(1, 0.5, 3)
    assert doubt(question, pairs, files) > 0.2
    assert any("either way is chance" in note for note in assemble(question, pairs, files).notes)


def test_pairs_that_disagree_agree_on_average() -> None:
    """What one pair's layout adds, others take off."""
    question, pairs, files = pairs_of(2, 1, 8)
    shares = [assemble(question, [pair], files).causes[0].share for pair in pairs]
    assert max(shares) - min(shares) > 0.5
    assert assemble(question, pairs, files).causes[0].share == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("step", "wobble", "tick", "count"), [(25, 0.1, 1, 2), (1, 0.5, 1, 10), (1, 0.5, 70, 1)]
)
def test_pairs_are_taken_until_they_agree(
    step: float, wobble: float, tick: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten at most, and none is begun after a minute."""
    _, pairs, files = pairs_of(step, wobble, 10)
    turns: list[int] = []
    now = [0.0]

    def pair(self: object, parent: Build, child: Build, workload: Workload, turn: int) -> Pair:
        turns.append(turn)
        now[0] += tick
        return pairs[turn]

    monkeypatch.setattr(ProfilingExplainer, "_pair", pair)
    monkeypatch.setattr(ProfilingExplainer, "_describe", lambda *_: files)
    explainer = ProfilingExplainer(Path("benchmarks"), core=0, clock=lambda: now[0])
    builds = [Build(sha * 40, Route.CACHED, f"tree-{sha}", "python") for sha in "ab"]
    explainer.explain(*builds, TIMED, compiled_differs=False)
    assert turns == list(range(count))
