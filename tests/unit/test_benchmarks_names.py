"""What the workloads take from torch must be in PyTorch 0.1.12, but for the compatibility module.

The lists hold the names of 0.1.12 that we use; a newer one fails here and belongs into compat.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "benchmarks"
COMPATIBILITY = ROOT / "workloads" / "compat.py"
PATHS = [path for path in sorted(ROOT.rglob("*.py")) if path != COMPATIBILITY]

MODULES = {
    "torch": "FloatTensor LongTensor __version__ bmm cat mm ones optim randn version zeros",
    "torch.optim": "Adam SGD",
    "nn": "Conv1d CrossEntropyLoss Dropout Embedding GRU LSTM Linear Module ModuleList Parameter "
    "ReLU Sequential",
    "functional": "conv1d",
}
"""Module -> its names in 0.1.12 that are used."""

METHODS = (
    "abs add addmm backward bias contiguous cpu cuda data expand_as fill_ max mul named_children "
    "norm normal_ numel numpy parameters size step t transpose unsqueeze view view_as weight "
    "zero_grad"
)
"""Of tensors, Variables, modules and optimizers in 0.1.12."""

PYTHON = (
    "Random add append argmin copy cos encode endswith environ exists expanduser format fromkeys "
    "get hexdigest index items log mkdir open parent path pathsep pretty_name random "
    "randrange redirect_stdout replace sha1 shuffle sin split splitlines startswith stderr "
    "sqrt strip upper which write write_text getpid devnull executable values join lower unit "
    "version time_calls devices"
)
"""Attributes of the standard library, of numpy, and of asv's benchmarks."""

KEYWORDS = {"bidirectional", "batch_first", "lr"}
"""Named arguments of 0.1.12; all others are given by position."""

FOREIGN = {"torch": "torch", "nn": "nn", "functional": "functional"}


def chain(node):
    """``a.b.c`` as its parts, or None where it does not begin with a name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return [node.id, *parts] if isinstance(node, ast.Name) else None


def own_names():
    """Everything that the benchmarks define: functions, classes, attributes, modules."""
    found = {path.stem for path in ROOT.rglob("*.py")}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "ctx")
                found |= {node.attr} if own else set()
    return found


OWN = own_names()


def strange(tree):
    """Names that this syntax tree takes from torch and that 0.1.12 lacks."""
    found = set()
    known = OWN | set(METHODS.split()) | set(PYTHON.split())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            parts = chain(node)
            if parts and parts[0] in FOREIGN:
                where, name = ".".join(parts[:-1]), parts[-1]
                if where in MODULES and name not in MODULES[where].split():
                    found.add(f"{where}.{name}")
                if where in MODULES:
                    continue
            if node.attr not in known and not node.attr.startswith("__"):
                found.add(f".{node.attr}")
        elif isinstance(node, ast.Call):
            parts = chain(node.func)
            if parts and parts[0] in FOREIGN:
                found |= {f"{k.arg}=" for k in node.keywords if k.arg and k.arg not in KEYWORDS}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            top = node.module.split(".")[0]
            allowed = {"nn", "functional", "cpp_extension"}
            if top == "torch":
                found |= {a.name for a in node.names if a.name not in allowed}
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.add("@")
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_what_0_1_12_has(path):
    """Functions, methods, modules and named arguments."""
    assert not strange(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("torch.tensor([1])", "torch.tensor"),
        ("with torch.no_grad(): pass", "torch.no_grad"),
        ("loss.item()", ".item"),
        ("nn.LayerNorm(5)", "nn.LayerNorm"),
        ("torch.zeros(3, device='cpu')", "device="),
        ("nn.MSELoss(reduction='sum')", "reduction="),
        ("data.detach()", ".detach"),
        ("left @ right", "@"),
        ("from torch.nn import init", "init"),
        ("torch.optim.AdamW(p)", "torch.optim.AdamW"),
    ],
)
def test_the_walk_sees_newer_names(line, name):
    """The test would notice what came later."""
    assert name in strange(ast.parse(line))


def test_extensions_are_imported_where_they_may_be_missing():
    """cpp_extension came after 0.1.12: only under a try that catches ImportError."""
    tree = ast.parse((ROOT / "workloads" / "cpp_function.py").read_text(encoding="utf-8"))
    guarded = [
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and any("ImportError" in ast.dump(h) for h in node.handlers)
        for inner in node.body
        if isinstance(inner, ast.ImportFrom)
    ]
    everywhere = [
        node
        for path in PATHS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and any(alias.name == "cpp_extension" for alias in node.names)
    ]
    assert len(guarded) == len(everywhere) == 1
