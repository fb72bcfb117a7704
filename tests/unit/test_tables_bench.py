"""Jobs in real children on fake workloads: every bad input is one line, and the rest goes on."""

import sys

import fakeworkloads
import pytest
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.tables.bench import Bench, Subject, cores_and_threads
from bisectorch.tables.catalogue import NAMES, chosen, make
from bisectorch.tables.children import stopwatch
from bisectorch.tables.shapes import Form, Side, job

RUN = job(Side.TORCH, "labeler", stages=("total",))


def bench(folder, python=sys.executable, **options):
    """A bench whose every side is this interpreter, which has no torch and no comparator."""
    subjects = {side: [Subject(python)] for side in Side}
    return Bench(subjects, folder, **options)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Every table on the fake workloads, by name."""
    made = bench(fakeworkloads.write(tmp_path_factory.mktemp("fake")), cores=2)
    return {name: make(name, made, Form.SHORT, None, "fake") for name in NAMES}


def row(table, name):
    """The row whose leading cells hold ``name``."""
    return next(each for each in table.rows if name in map(str, each.cells[:2]))


def test_every_table_is_made(tables):
    """Whatever is missing, each has rows as wide as its columns, and states its conditions."""
    for name, table in tables.items():
        assert table.name == name
        assert table.rows
        assert all(len(each.cells) == len(table.columns) for each in table.rows)
        assert {"measured", "cores", "threads", "versions", "form"} <= table.conditions.keys()
        assert table.source


def test_a_row_without_a_figure_says_why(tables):
    """Never a gap: where ours is missing, there is a reason."""
    for table in tables.values():
        ours = [place for place, column in enumerate(table.columns) if column.kind.value == "ours"]
        for each in table.rows:
            if any(each.cells[place] is None for place in ours):
                assert each.why, (table.name, each.cells)


def test_a_missing_comparator_says_how_to_get_it(tables):
    """The account's figure stays, and the rest of the table is measured."""
    dynet = row(tables["A1"], "DyNet")
    assert dynet.cells[1] == 1.206
    assert "DyNet is not installed" in dynet.why
    assert "bisectorch[comparators]" in dynet.why
    assert isinstance(row(tables["A1"], "PyTorch").cells[2], float)
    assert "keras-tcn" in row(tables["B"], "keras-tcn (TensorFlow)").why


def test_no_compiler(tables):
    """The C++ row says so, the others are measured, and the projection knows."""
    cpp = row(tables["A6"], "add variables (C++ function)")
    assert cpp.cells[2] is None
    assert "no C++ compiler" in cpp.why
    assert row(tables["A6"], "add variables (Python function)").cells[2] is not None
    assert "no C++ compiler" in row(tables["A7"], "f = O_py / O_cpp").why


def test_a_torch_too_old_and_one_out_of_memory(tables):
    """One line each; the TCN is measured all the same."""
    assert "it came with 0.4" in row(tables["B"], "Transformer, 4 heads, 4 layers").why
    lstm = row(tables["B"], "LSTM")
    assert lstm.why == "RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB"
    assert row(tables["B"], "TCN").cells[5] is not None


def test_the_counts_of_the_account(tables):
    """As the account counts: tied weights twice."""
    assert row(tables["B"], "TCN").cells[2:4] == (2226899, 2226899)


def test_shares_of_the_profile(tables):
    """Percent of the step's own time, whichever way a convolution is called."""
    convolution = row(tables["profile"], "convolution")
    assert convolution.cells[3] == pytest.approx(100 * 0.25 / 0.28)
    assert "no such operator" in row(tables["profile"], "_local_scalar_dense").why


def test_functions_keep_the_accounts_names(tables):
    """Its own first, then those it does not know, with what they are called here."""
    addmm = row(tables["A3"], "AddmmBackward")
    assert addmm.cells[2] == 2.41561
    assert addmm.cells[3] == pytest.approx(5.0)
    assert addmm.cells[6] == "AddmmBackward0"
    assert row(tables["A3"], "NewBackward").cells[2] is None
    assert "calls no such function" in row(tables["A3"], "TanhBackward").why


def test_an_absent_gpu(tmp_path):
    """One line a row."""
    made = bench(fakeworkloads.write(tmp_path), device="cuda")
    table = make("B", made, Form.SHORT, None, "fake")
    assert "no GPU" in row(table, "TCN").why
    assert "on cuda" in table.title


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (fakeworkloads.LABELER.replace("LOSS = 2.0", "LOSS = float('nan')"), "the loss is nan"),
        ("import os\nos.kill(os.getpid(), 9)", "killed: too little memory?"),
        ("import os\nos.kill(os.getpid(), 11)", "died of signal 11"),
        ("import os\nos._exit(3)", "ended without an answer: 3"),
        ("raise MemoryError", "out of memory"),
        ("import torch_that_is_not_there", "No module named 'torch_that_is_not_there'"),
        ("import torch", "PyTorch is not installed: name an interpreter that has it"),
        ("def check_once():\n    raise ValueError('first\\nsecond')", "ValueError: first"),
        ("1 +", "SyntaxError"),
    ],
)
def test_a_child_that_fails_is_a_reason(tmp_path, text, reason):
    """NaN, a crash, an out-of-memory kill, a missing library, a raised error."""
    made = bench(fakeworkloads.write(tmp_path, sequence_labeler=text), rounds=2)
    found = made.measure([RUN])[RUN]
    assert found.value("total") is None
    assert reason in found.why("total")
    assert "\n" not in found.why("total")


def test_an_infinite_figure_is_none(tmp_path):
    """A clock gone wrong is not a figure."""
    text = fakeworkloads.CHARACTERS.replace("[3.7] * steps", "steps")
    text = text.replace(
        "def layers", "import time\ntime.perf_counter = lambda: 1e400\n\ndef layers"
    )
    made = bench(fakeworkloads.write(tmp_path, char_lm=text))
    asked = job(Side.TORCH, "profile", model="tcn", length=1, steps=1, device="cpu")
    assert made.measure([asked])[asked].value("aten::norm") == pytest.approx(0.02)
    step = job(Side.TORCH, "characters", model="tcn", length=1, steps=1, device="cpu")
    assert made.measure([step])[step].value("step") is None


def test_a_child_that_hangs(tmp_path):
    """It is given up."""
    text = "import time\ntime.sleep(60)"
    made = bench(fakeworkloads.write(tmp_path, sequence_labeler=text), timeout_seconds=0.5)
    assert made.measure([RUN])[RUN].why() == "no answer within 0.5 s"


def test_an_interpreter_that_is_none(tmp_path):
    """The request itself cannot be served."""
    made = bench(fakeworkloads.write(tmp_path), python=str(tmp_path / "python"))
    with pytest.raises(EnvironmentFailure, match="name a Python interpreter"):
        made.measure([RUN])


def test_the_first_interpreter_that_has_the_library(tmp_path):
    """Comparators are looked for in turn."""
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    (libraries / "dynet.py").write_text("")
    (libraries / "dynet_config.py").write_text("def set(**settings): pass")
    # What ends the search is that DyNet can be imported, not that it works.
    subjects = [Subject(sys.executable), Subject(sys.executable, tree=str(libraries))]
    made = Bench({Side.DYNET: subjects}, fakeworkloads.write(tmp_path))
    asked = job(Side.DYNET, "dynet", stages=("total",))
    why = made.measure([asked])[asked].why("total")
    assert "not installed" not in why
    assert "AttributeError" in why


def test_nothing_is_measured_twice(tmp_path):
    """A7 reads what A6 measured."""
    said = []
    made = bench(fakeworkloads.write(tmp_path), say=said.append, rounds=2)
    make("A6", made, Form.SHORT, None, "fake")
    before = len(said)
    make("A7", made, Form.SHORT, None, "fake")
    assert before == len(said) == 2


def test_rounds_give_a_median(tmp_path):
    """One value a round."""
    made = bench(fakeworkloads.write(tmp_path), rounds=3)
    found = made.measure([RUN])[RUN]
    assert len(found.figures["total"]) == 3
    assert found.value("total") == sorted(found.figures["total"])[1]


@pytest.mark.parametrize("asked", ["1000000", "99999"])
def test_more_threads_than_cores(asked):
    """One line, and the cores are used."""
    cores, complaint = cores_and_threads({"OMP_NUM_THREADS": asked})
    assert cores >= 1
    assert f"OMP_NUM_THREADS={asked} is above the {cores} cores" in complaint


@pytest.mark.parametrize("asked", ["", "1", "many"])
def test_threads_within_the_cores(asked):
    """No complaint."""
    assert cores_and_threads({"OMP_NUM_THREADS": asked})[1] == ""


def test_names_of_tables():
    """In their own order, in any case; an unknown one is told with the known ones."""
    assert chosen(["b", "A1"]) == ("A1", "B")
    assert chosen([]) == NAMES
    with pytest.raises(UsageError, match="there is no table 'A9'; there are: A1, A2"):
        chosen(["A9"])


def test_a_folder_without_workloads(tmp_path):
    """Told before anything is measured."""
    with pytest.raises(UsageError, match="holds no workloads"):
        bench(tmp_path)


def test_the_clock_leaves_out_what_others_took(monkeypatch):
    """Waiting for a core is not the work's; sleeping and waiting for own threads is."""
    waited, used, wall = iter([1.0, 1.5]), iter([10.0, 10.2]), iter([0.0, 1.0])
    monkeypatch.setattr(stopwatch, "waiting", lambda: next(waited))
    monkeypatch.setattr(stopwatch.time, "process_time", lambda: next(used))
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: next(wall))
    assert stopwatch.timed(lambda: "made") == (pytest.approx(0.5), "made")


def test_the_clock_never_takes_away_work(monkeypatch):
    """With other threads at work meanwhile, nothing was lost."""
    waited, used, wall = iter([0.0, 0.9]), iter([0.0, 1.8]), iter([0.0, 1.0])
    monkeypatch.setattr(stopwatch, "waiting", lambda: next(waited))
    monkeypatch.setattr(stopwatch.time, "process_time", lambda: next(used))
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: next(wall))
    assert stopwatch.timed(lambda: None)[0] == pytest.approx(1.0)
