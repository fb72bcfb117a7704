"""The replay's own nn.Linear, at every state of its history, on a real torch."""

import json
import os
import subprocess

import pytest
from bisectorch.build.overlay import lay
from bisectorch.model import TreeFile
from bisectorch.replay import story
from bisectorch.replay.repository import nodes

pytestmark = pytest.mark.torch

STATES = ("base", "twice", "contiguous", "matmul", "checks", "mend", "merge", "compiled")

CHECK = """
import json, torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(5, 3).double()
plain = nn.Linear(5, 3, bias=False).double()
lazy = nn.LazyLinear(3)
shapes = [(4, 5), (5,), (2, 4, 5)]
told = {"lazy": list(lazy(torch.ones(2, 7)).shape), "in": lazy.in_features}
for shape in shapes:
    for name, module in (("bias", layer), ("plain", plain)):
        module.zero_grad()
        data = torch.arange(1.0, 1.0 + torch.Size(shape).numel(), dtype=torch.double)
        data = (data / 10).reshape(shape).requires_grad_()
        output = module(data)
        output.pow(2).sum().backward()
        grads = [data.grad] + [p.grad for p in module.parameters()]
        told[name + str(shape)] = [t.flatten().tolist() for t in [output.detach(), *grads]]
data = torch.ones(4, 5, dtype=torch.double, requires_grad=True)
assert torch.autograd.gradcheck(layer, (data,))
assert torch.autograd.gradgradcheck(layer, (data,))
told["bilinear"] = list(nn.Bilinear(2, 3, 4)(torch.ones(6, 2), torch.ones(6, 3)).shape)
told["identity"] = nn.Identity(7, x=1)(5)
told["transformer"] = list(nn.TransformerEncoderLayer(8, 2)(torch.ones(3, 2, 8)).shape)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory, torch_tree, torch_python):
    """A function: the label of a commit and a script -> the finished process."""
    scratch = tmp_path_factory.mktemp("overlays")
    written = {node.step.label: node for node in nodes(story.LINE)}

    def start(label, script):
        tree = scratch / label
        if not tree.exists():
            tree.mkdir()
            texts = written[label].tree
            contents = {path: texts[path].encode() for path in texts if path[:6] == "torch/"}
            files = [TreeFile(path, "100644", path) for path in contents]
            lay(torch_tree, tree, files, contents, python=torch_python, date_seconds=0)
        return subprocess.run(
            [torch_python, "-c", script],
            env=dict(os.environ, PYTHONPATH=str(tree), OMP_NUM_THREADS="1"),
            capture_output=True,
            text=True,
        )

    return start


def test_every_state_computes_the_same(run):
    """Outputs and gradients agree between all states, and can be differentiated twice."""
    answers = {}
    for label in STATES:
        done = run(label, CHECK)
        assert done.returncode == 0, f"{label}: {done.stderr}"
        answers[label] = json.loads(done.stdout)
    for label, answer in answers.items():
        assert answer.keys() == answers["base"].keys()
        for key, value in answer.items():
            expected = answers["base"][key]
            if isinstance(value, list) and value and isinstance(value[0], list):
                for part, wanted in zip(value, expected, strict=True):
                    assert part == pytest.approx(wanted), f"{label} {key}"
            else:
                assert value == expected, f"{label} {key}"


def test_the_wrong_width_is_told_in_words(run):
    """What the small step pays for."""
    done = run("checks", "import torch; torch.nn.Linear(3, 2)(torch.zeros(4, 5))")
    assert "ValueError: cannot multiply 5 columns by 3 rows" in done.stderr


@pytest.mark.parametrize("label", story.BROKEN)
def test_broken_commits_cannot_be_imported(run, label):
    """An outcome for the tracker, on a real torch as well."""
    done = run(label, "import torch")
    assert done.returncode != 0
    assert "ModuleNotFoundError" in done.stderr or "SyntaxError" in done.stderr


@pytest.mark.parametrize("label", ["merge", "unfreeze-names"])
def test_the_commits_own_tests_pass(run, tmp_path, label):
    """The history's test suite belongs to its code."""
    written = {node.step.label: node for node in nodes(story.LINE)}
    (tmp_path / "test_nn.py").write_text(written[label].tree[story.TESTS])
    script = f"import sys, unittest; sys.path.insert(0, {str(tmp_path)!r}); import test_nn; "
    done = run(label, script + "unittest.main(module=test_nn, argv=['x'])")
    assert done.returncode == 0, done.stderr
    assert "OK" in done.stderr
