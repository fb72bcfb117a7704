"""The benchmarks, run for real by asv_runner's own discovery on a real torch."""

import ast
import json
import os
import subprocess
from pathlib import Path

import asv_runner
import pytest
from bisectorch.replay import story
from bisectorch.replay.write import names

pytestmark = pytest.mark.torch

ROOT = Path(__file__).resolve().parents[2]

DISCOVER = """
import itertools, json, sys
from asv_runner.discovery import disc_benchmarks

found = {}
for benchmark in disc_benchmarks(sys.argv[1]):
    for index, choice in enumerate(itertools.product(*benchmark.params)):
        benchmark.set_param_idx(index)
        name = benchmark.name + ("(" + ", ".join(choice) + ")" if choice else "")
        number = benchmark.number
        if index == 0:
            benchmark.do_setup()
            benchmark.do_run()
        found[name] = number
print(json.dumps(found))
"""

LABELER = """
import json
from benchmarks.workloads import compat, sequence_labeler as model

training = model.Training()
again = model.Training()
sizes = [p.numel() for p in training.model.parameters()]
forward = [compat.scalar(loss) for loss in training.run(1, "forward")]
training = model.Training()
epochs = [[compat.scalar(loss) for loss in training.run(1)] for _ in range(3)]
print(json.dumps({
    "parameters": sum(sizes),
    "stated": model.PARAMETERS,
    "tokens": sum(len(words) for words, _ in training.data),
    "epochs": epochs,
    "again": [compat.scalar(loss) for loss in again.run(1)],
    "forward": forward,
    "cut": [loss for loss in model.Training().run(1, "arg_min")],
}))
"""

LINEAR = """
import json
from benchmarks.workloads import linear as model

small = model.Small(10, 100, input_needs_grad=True)
small.forward_backward(2)
first = small.layer.bias.grad.tolist()
plain = model.Small(10, 100)
plain.forward(2)
untouched = plain.layer.weight.grad
plain.backward(3)
chain = model.Chain()
chain.backward()
print(json.dumps({
    "bias": first,
    "input": small.input.grad.abs().sum().item(),
    "untouched": untouched is None,
    "kept": plain.layer.bias.grad.tolist(),
    "chain": [layer.weight.grad.abs().sum().item() for layer in chain.layers],
    "leaf": chain.input.grad.abs().sum().item(),
}))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory, torch_python):
    """A function: script and arguments -> what it printed as JSON."""
    packages = tmp_path_factory.mktemp("packages")
    (packages / "asv_runner").symlink_to(Path(asv_runner.__file__).parent)

    def start(script, *arguments):
        path = os.pathsep.join([str(ROOT), str(packages)])
        done = subprocess.run(
            [torch_python, "-c", script, *arguments],
            env=dict(os.environ, PYTHONPATH=path, OMP_NUM_THREADS="1"),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return start


@pytest.fixture(scope="module")
def found(run):
    """Every workload that asv finds, each benchmark run once: name -> its ``number``."""
    return run(DISCOVER, str(ROOT / "benchmarks"))


def test_asv_finds_every_workload_of_the_truth(found):
    """expected.json's names are asv's own."""
    told = {name for item in story.WORKLOADS.items() for name in names(*item)}
    assert told <= found.keys()
    assert {name for name in found if name.startswith("linear.")} <= told


def test_nothing_that_is_imported_is_taken_for_a_benchmark(found):
    """Discovery walks imported names: each workload is found once, under its own module."""
    assert {name.split("(")[0] for name in found} == {
        *(f"linear.Linear.time_{mode}" for mode in MODES),
        "linear.Chain.time_backward",
        "sequence_labeler.Run.time_train",
        "sequence_labeler.Stages.time_forward",
        "sequence_labeler.Larger.time_train",
        "sequence_labeler.Functions.track_backward",
        "autograd_overhead.Overhead.time_calls",
        "char_lm.Step.time_train",
    }


MODES = ("forward", "backward", "forward_backward", "forward_backward_input")


def test_stages_are_those_of_the_account(found):
    """In the account's order."""
    stages = [name for name in found if "Stages" in name]
    assert [ast.literal_eval(name.split("(")[1][:-1]) for name in stages] == [
        "preprocess",
        "concat",
        "affine_t",
        "rectify",
        "affine_transform",
        "arg_min",
        "loss",
        "forward",
        "total",
    ]


def test_the_labeler_is_the_accounts(run):
    """Exact sizes, a loss that falls, the same numbers every time."""
    told = run(LABELER)
    assert told["parameters"] == told["stated"] == 43351
    assert told["tokens"] == 1072
    assert told["again"] == told["epochs"][0]
    sums = [sum(losses) for losses in told["epochs"]]
    assert sums[2] < sums[1] < sums[0]
    assert told["forward"][0] == told["epochs"][0][0]
    assert told["cut"] == [None] * 10


def test_linear_walks_what_it_says(run):
    """Gradients accumulate as often as there were calls; the chain reaches every layer."""
    told = run(LINEAR)
    assert told["bias"] == [20.0] * 100
    assert told["input"] > 0
    assert told["untouched"]
    assert told["kept"] == [30.0] * 100
    assert len(told["chain"]) == 100
    assert min(told["chain"]) > 0
    assert told["leaf"] > 0
