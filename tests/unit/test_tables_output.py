"""Tables as text, markdown, CSV, JSON and figures; and the account's figures themselves."""

import csv
import io
import json
from dataclasses import replace

import factories
import pytest
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.tables import account, output, profiles
from bisectorch.tables.figures import draw
from bisectorch.tables.linear import CHAIN, Levels, by_commit
from bisectorch.tables.overhead import projection
from bisectorch.tables.shapes import Column, Form, Kind, Measured, Row, Table, ratio

TABLE = Table(
    "A1",
    "whole run",
    "a wiki page",
    (
        Column("run", Kind.NAME),
        Column("account", Kind.ACCOUNT, "s"),
        Column("ours", Kind.OURS, "s"),
        Column("ours/first", Kind.OURS_RATIO),
        Column("parameters", Kind.NAME),
    ),
    (
        Row(("first | one", 1.206, 0.35123, 1.0, 43351), ""),
        Row(("second", 8.36, None, None, None), "DyNet is not installed"),
        Row(("third", None, 1234.56, 4.5, None)),
    ),
    ("ten epochs",),
    {"measured": "today", "cores": "2"},
)


def test_text_aligns_and_says_why():
    """Four digits, a times sign, a dash and a reason."""
    lines = output.text([TABLE]).splitlines()
    assert lines[0] == "A1: whole run"
    head = next(line for line in lines if line.startswith("run"))
    second = next(line for line in lines if line.startswith("second"))
    assert "account, s" in head
    assert second.endswith("DyNet is not installed")
    assert second.index("8.36") + 4 == head.index("account, s") + len("account, s")
    assert "4.50×" in output.text([TABLE])
    assert "43,351" in output.text([TABLE])
    assert "* ten epochs" in lines
    assert "cores: 2" in lines


def test_markdown_keeps_its_columns():
    """A pipe in a cell is no column; every row is as wide as the head."""
    text = output.markdown([TABLE])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert "first \\| one" in text
    assert {line.replace("\\|", "").count("|") for line in rows} == {7}
    assert "- cores: 2" in text


def test_csv_has_a_line_a_cell():
    """Numbers in full, one reason a row."""
    rows = list(csv.DictReader(io.StringIO(output.comma_separated([TABLE]))))
    assert len(rows) == 15
    ours = [row for row in rows if row["kind"] == "ours"]
    assert [row["value"] for row in ours] == ["0.35123", "", "1234.56"]
    assert ours[1]["note"] == "DyNet is not installed"
    assert ours[0]["unit"] == "s"


def test_json_keeps_numbers():
    """With schema, columns' kinds, conditions."""
    told = json.loads(output.as_json([TABLE]))
    assert told["schema"] == 1
    [table] = told["tables"]
    assert table["rows"][0]["cells"][2] == 0.35123
    assert table["columns"][1] == {
        "title": "account",
        "kind": "account",
        "unit": "s",
        "series": "",
    }
    assert table["conditions"]["cores"] == "2"


def test_a_stream_that_cannot_write_it():
    """Escaped, not a traceback."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    output.write([TABLE], "text", stream)
    stream.flush()
    assert b"4.50\\xd7" in raw.getvalue()


def test_files_of_a_table(tmp_path):
    """Five of each, the same bytes every time."""
    output.save(TABLE, tmp_path / "new")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["A1.csv", "A1.json", "A1.md", "A1.svg", "A1.txt"]
    assert "<svg" in (tmp_path / "new" / "A1.svg").read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="choose another folder"):
        output.save(TABLE, tmp_path / "file")


def test_a_figure_shows_both_sides():
    """A dot for each number of the account and of ours, on a logarithmic scale."""
    axes = draw(TABLE).axes[0]
    dots = {line.get_label(): list(line.get_xdata()) for line in axes.lines}
    assert dots["account"] == [1.206, 8.36]
    assert dots["ours"] == [0.35123, 1234.56]
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "first | one",
        "second",
        "third",
    ]


def test_a_figure_of_nothing():
    """A table whose figures are all missing can be drawn."""
    draw(replace(TABLE, rows=(Row(("x", None, None, None, None), "why"),)))


def test_ratios_need_both():
    """No division by nothing."""
    assert ratio(2.0, 4.0) == 0.5
    assert ratio(None, 4.0) is None
    assert ratio(2.0, 0.0) is None
    assert ratio(2.0, None) is None


def test_the_account_adds_up():
    """Its own sums and its projection, from its own figures."""
    models = account.b("models")
    for model in models.values():
        assert sum(model["parts"]) == model["parameters"]
    a4, a6, a7 = account.a("A4"), account.a("A6"), account.a("A7")
    python = a6["add variables (Python function)"]
    cpp = a6["add variables (C++ function)"]
    assert python["overhead"] / cpp["overhead"] == pytest.approx(a7["factor"], abs=0.02)
    master, before = a4["master (2017-11-28)"], a4["v0.1.12"]
    projected = before + (master - before) / a7["factor"]
    assert projected == pytest.approx(a7["projection"], abs=0.005)
    for name in ("addmm variables", "add variables (Python function)"):
        plain = a6[f"{name.split()[0]} tensors"]["time"]
        assert a6[name]["time"] - plain == pytest.approx(a6[name]["overhead"], abs=1e-9)
    stages = account.a("A2")
    assert list(stages["DyNet"]) == list(stages["PyTorch"])
    for column in stages.values():
        assert list(column.values()) == sorted(column.values())
    assert len(account.a("A3")["PyTorch"]) == 17
    assert len(account.a("A3")["DyNet"]) == 10


PRINTED = """Timing Info:
  0.5\t1%\tBWD parameters({5}) @ 0x565457d92030
  1.5\t3%\tFWD concat({a,a,a}, 0)
  2.5\t5%\tBWD concat({a,a,a}, 0)
  0.25\t5%\tBWD concat({a,a}, 0)
  1e+03\t5%\tBWD a + a * a + a * a
  3\t5%\tBWD a + a * a
  4\t5%\tBWD a + a + a
  5\t5%\tBWD a \\cdot a
  6\t5%\tBWD || a - a ||^2
  7\t5%\tBWD something new
  9\t100%\t(total time)
"""


def test_dynets_profile_is_read():
    """Backward only, by class of node, in seconds."""
    assert profiles.backward_seconds(PRINTED) == pytest.approx(
        {
            "Parameters": 0.0005,
            "Concatenate": 0.00275,
            "AffineTransform": 1.003,
            "Sum": 0.004,
            "CwiseMultiply": 0.005,
            "SquaredEuclideanDistance": 0.006,
            "something new": 0.007,
        }
    )
    assert profiles.backward_seconds("nothing\n") == {}


def chain_findings():
    """The usual findings, as a session of the chain."""
    findings = factories.make_findings()
    first = findings.workloads[0]
    chain = replace(first, workload=replace(first.workload, benchmark=CHAIN, params=()))
    return replace(findings, workloads=(*findings.workloads[1:], chain))


def test_a4_comes_from_a_session():
    """FROM, each culprit with its parent in the account's place, TO; ratios are the session's."""
    levels = Levels.of(chain_findings())
    assert levels.scale == 500
    table = by_commit(None, Form.FULL, levels)
    names = [str(row.cells[0]) for row in table.rows]
    assert names[0].startswith("FROM, ")
    assert names[-1].startswith("TO, ")
    culprits = {culprit.commit.subject: culprit for culprit in levels.culprits}
    for subject, told in (
        ("added twice differentiation for a bunch of ops (#1426)", (3.94, 3.94 / 1.62)),
        ("Use torch.matmul in nn.Linear (#1935)", (5.60, 5.60 / 4.10)),
    ):
        [place] = [place for place, name in enumerate(names) if name.startswith(subject)]
        row = table.rows[place]
        assert row.cells[1] == told[0]
        assert row.cells[3] == pytest.approx(told[1])
        assert row.cells[4] == culprits[subject].ratio
        assert row.cells[2] == pytest.approx(culprits[subject].child.level * 500)
        assert names[place - 1] == "... its parent"
        assert "probability" in row.why
    assert table.rows[0].cells[1] == 1.94
    assert any("session" in note for note in table.notes)


def test_a4_without_a_session_says_what_to_do():
    """The account's rows stay."""
    table = by_commit(None, Form.FULL, None)
    assert [row.cells[1] for row in table.rows] == [1.94, 1.62, 3.94, 4.10, 5.60, 5.74]
    assert all("bisectorch bisect" in row.why for row in table.rows)


def test_a_session_without_a_linear_benchmark():
    """Told in one line."""
    findings = factories.make_findings()
    other = replace(findings.workloads[0].workload, benchmark="other.time_x")
    findings = replace(findings, workloads=(replace(findings.workloads[0], workload=other),))
    with pytest.raises(UsageError, match="holds no Linear benchmark"):
        Levels.of(findings)


class Answers:
    """A bench that knows A6's answer."""

    device = "cpu"

    def __init__(self, python: float, cpp: float) -> None:
        plain = {"add tensors": [0.1], "addmm tensors": [0.2], "addmm variables": [0.3]}
        self.measured = Measured(
            {
                **plain,
                "add variables": [0.15],
                "add variables (Python function)": [0.1 + python],
                "add variables (C++ function)": [0.1 + cpp],
            }
        )

    def measure(self, jobs):
        """The same for every job."""
        return dict.fromkeys(jobs, self.measured)


def test_the_projection_shows_its_formula():
    """B + (S - B) / f, from A6's factor and A4's levels."""
    levels = Levels.of(chain_findings())
    table = projection(Answers(0.4, 0.1), Form.FULL, levels)
    cells = {str(row.cells[0]).split(":")[0]: row.cells for row in table.rows}
    assert cells["f = O_py / O_cpp"][2] == pytest.approx(4.0)
    expected = levels.first + (levels.slowest - levels.first) / 4.0
    assert cells["projected"][1:] == (2.78, pytest.approx(expected))
    assert "B + (S - B) / f" in table.notes[0]
    assert "= 2.78" in table.notes[0]


def test_a_projection_from_noise():
    """An overhead below nothing is no factor."""
    table = projection(Answers(0.4, -0.01), Form.SHORT, Levels.of(chain_findings()))
    [factor] = [row for row in table.rows if str(row.cells[0]).startswith("f =")]
    assert factor.cells[2] is None
    assert "noise" in factor.why
