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
        number = getattr(benchmark, "number", 1)
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

small = model.Small(10, 100).towards_input()
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


OTHERS = """
import json, os
from benchmarks.workloads import autograd_overhead, char_lm, compat, cpp_function
from benchmarks.workloads import sequence_labeler

characters = {}
for name in char_lm.MODELS:
    training = char_lm.Training(name, 16)
    distinct = sum(p.numel() for p in training.model.parameters())
    characters[name] = [distinct, char_lm.PARAMETERS[name], training.check(3), char_lm.layers(name)]
overheads = {}
for variant in autograd_overhead.VARIANTS[:-1]:
    output = autograd_overhead.Overhead(variant).run(2)
    overheads[variant] = [list(output.shape), output.requires_grad]
gradients = []
for add in (compat.added_in_python(), compat.torch.add):
    row = compat.variable(compat.torch.ones(1, 3), True)
    add(row, row).sum().backward()
    gradients.append(row.grad.tolist())
reasons = []
for change in ({"CXX": "no-such-compiler"}, {"CXX": "c++", "PATH": ""}):
    os.environ.update(change)
    try:
        cpp_function.load()
    except NotImplementedError as error:
        reasons.append(str(error))
try:
    compat.to("cuda", compat.torch.ones(1))
except NotImplementedError as error:
    reasons.append(str(error))
labels = sequence_labeler.Training(1000, 0.001)
print(json.dumps({
    "characters": characters,
    "overheads": overheads,
    "gradients": gradients,
    "reasons": reasons,
    "functions": sequence_labeler.backward_seconds(),
    "listed": sequence_labeler.FUNCTIONS,
    "larger": sum(p.numel() for p in labels.model.parameters()),
    "losses": [compat.scalar(loss) for loss in labels.run(1, minibatches=2)],
}))
"""

WRONG = """
import json
from benchmarks.workloads import autograd_overhead, char_lm, linear, sequence_labeler
import torch

def scaled(function):
    return lambda *args, **named: function(*args, **named) * FACTOR

def reason(work):
    try:
        work()
    except ValueError as error:
        return str(error)

told = []
for FACTOR in (float("nan"), 1.01):
    right, torch.nn.functional.linear = torch.nn.functional.linear, scaled(torch._C._nn.linear)
    told.append(reason(lambda: linear.Small(2, 10)))
    if FACTOR != FACTOR:
        told.append(reason(linear.Chain))
        told.append(reason(sequence_labeler.check_once))
        told.append(reason(lambda: char_lm.Training("lstm", 8).check(2)))
    torch.nn.functional.linear = right
sequence_labeler.PARAMETERS += 1
told.append(reason(sequence_labeler.check_once))
char_lm.RATE = 0.0
told.append(reason(lambda: char_lm.Training("tcn", 8).check(2)))
print(json.dumps(told))
"""

COMPILED = """
import json
from benchmarks.workloads import autograd_overhead, compat

row = compat.variable(compat.torch.ones(1, 52), True)
output = compat.added_in_cpp()(row, row)
output.sum().backward()
again = autograd_overhead.Overhead("add variables (C++ function)")
print(json.dumps([output.grad_fn.name(), row.grad.sum().item(), list(again.run(2).shape)]))
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


@pytest.fixture(scope="module")
def others(run):
    """What the newer workloads tell of themselves."""
    return run(OTHERS)


def test_character_models_have_exactly_the_accounts_parameters(others):
    """Counted here, stated in the workload, and by layer as the account gives them."""
    for name, (found, stated, losses, _) in others["characters"].items():
        assert found == stated, name
        assert losses[-1] < losses[0], name
    layers = {name: dict(told[3]) for name, told in others["characters"].items()}
    assert layers["tcn"] == {"embedding": 4900, "network": 2217050, "decoder": 4949}
    assert layers["lstm"] == {"embedding": 4900, "network": 2245600, "decoder": 34349}
    assert others["characters"]["transformer"][0] == 575449
    assert others["characters"]["tcn"][0] == 2221999
    halved = others["characters"]["tcn of half the depth"][0]
    assert abs(halved / others["characters"]["tcn"][0] - 1) < 0.001


def test_overheads_are_of_the_same_operation(others):
    """Tensors record nothing, all others a gradient; the Function's is that of a sum."""
    for variant, (shape, needs_gradient) in others["overheads"].items():
        assert shape == [1, 52]
        assert needs_gradient == ("variables" in variant)
    assert others["gradients"] == [[[2.0, 2.0, 2.0]]] * 2


def test_what_stands_in_a_workloads_way_is_one_line(others):
    """No compiler, no ninja, no GPU."""
    compiler, ninja, *gpu = others["reasons"]
    assert "no C++ compiler is found as 'no-such-compiler'" in compiler
    assert "not found" in ninja or "no C++ compiler" in ninja
    assert gpu in ([], ["this machine has no GPU that its torch can use"])


def test_functions_of_the_backward_pass(others):
    """Those that do most of the work are listed, under the account's names."""
    functions = others["functions"]
    assert {"AddmmBackward", "ConcatBackward", "MSELossBackward", "IndexBackward"} <= set(functions)
    assert set(functions) <= set(others["listed"])
    assert functions["MSELossBackward"][1] == 1072
    assert all(seconds >= 0 for _, _, seconds in functions.values())


def test_the_larger_labeler(others):
    """More labels, more parameters; two minibatches have two losses."""
    assert others["larger"] == 43351 + (1000 - 32) * (5 + 52 + 1)
    assert len(others["losses"]) == 2


def test_a_build_that_computes_wrong_is_not_measured(run):
    """NaN, a result that is slightly off, another model, one that does not train: each is told."""
    told = run(WRONG)
    assert all(told), told
    small, chain, labeler, characters, slightly, parameters, rate = told
    assert "nan" in small
    assert "the norm is nan" in chain
    assert "nan" in labeler
    assert "nan" in characters
    assert "nn.Linear is off by" in slightly
    assert parameters == "the model has 43351 parameters, not 43352"
    assert "does not train" in rate


@pytest.mark.slow
def test_the_function_in_cpp(run, tmp_path, monkeypatch):
    """Built once by torch's own tool, it is a node of the graph with the gradient of a sum."""
    monkeypatch.setenv("BISECTORCH_EXTENSIONS", str(tmp_path))
    node, gradient, shape = run(COMPILED)
    assert "Add" in node
    assert gradient == 104
    assert shape == [1, 52]
    built = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")}
    assert len(built) == 1
    run(COMPILED)
    assert {path: path.stat().st_mtime_ns for path in built} == built
