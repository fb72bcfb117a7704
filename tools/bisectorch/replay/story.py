"""The replay's commits, oldest first: a re-enactment, written from scratch.

It tells in some 60 commits what a published account of 2017 found in PyTorch's own history:
``nn.Linear``, one fast call at first, goes through Python functions whose gradients are functions
again, then through matmul; later it goes back to compiled code. docs/replay.md says which commit
is which and what each was measured to do. Everything else (documentation, tests, modules that
no workload executes, commits that cannot be imported) is what a search has to see through.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from bisectorch.replay.edits import Append, Delete, Edit, Put, Replace, Undo

LINEAR = "torch/nn/modules/linear.py"
FUNCTIONS = "torch/nn/_functions/"
COUNTING = "torch/nn/utils/counting.py"
FREEZING = "torch/nn/utils/freezing.py"
DOCS = "docs/source/nn.rst"
NOTES = "docs/source/notes/extending.rst"
TESTS = "test/test_nn.py"


@dataclass(frozen=True)
class Step:
    """One commit of the replay.

    Attributes:
        label: its name in this package and in docs/replay.md.
        subject: the first line of its message.
        edits: what it does to its first parent's tree.
        body: the rest of its message.
        side: a merge's branch, oldest first, which grew out of ``fork``.
        fork: the label of the commit that the side branch grew out of.
    """

    label: str
    subject: str
    edits: tuple[Edit, ...] = ()
    body: str = ""
    side: tuple[Step, ...] = ()
    fork: str = ""


SMALL = ((1, 10), (10, 100))
LABELER = "sequence_labeler.Run.time_train"
LINEAR_WORKLOADS: dict[str, tuple[tuple[object, ...], ...]] = {
    "linear.Linear.time_forward": SMALL,
    "linear.Linear.time_backward": SMALL,
    "linear.Linear.time_forward_backward": SMALL,
    "linear.Linear.time_forward_backward_input": SMALL,
    "linear.Chain.time_backward": (),
}
WORKLOADS = {**LINEAR_WORKLOADS, LABELER: ()}
GRADIENT = [name for name in WORKLOADS if name != "linear.Linear.time_forward"]


@dataclass(frozen=True)
class Truth:
    """A step of the metric: its kind, and the benchmarks on which it shows."""

    kind: Literal["regression", "improvement"]
    benchmarks: Collection[str] = tuple(WORKLOADS)


def _docs(label: str, subject: str, text: str) -> Step:
    return Step(label, subject, (Append(DOCS, f"\n{text}\n"),))


def _notes(label: str, subject: str, text: str) -> Step:
    return Step(label, subject, (Append(NOTES, f"\n{text}\n"),))


def _test(label: str, subject: str, name: str, *lines: str) -> Step:
    body = "".join(f"        {line}\n" for line in lines)
    return Step(label, subject, (Append(TESTS, f"\n    def test_{name}(self):\n{body}"),))


def _code(label: str, subject: str, path: str, text: str) -> Step:
    return Step(label, subject, (Append(path, text),))


BASE = Step(
    "base",
    "Keep the Python sources of nn.Linear beside the installed wheel",
    (
        Put("README.md", "README.md"),
        Put(DOCS, "nn.rst"),
        Put(TESTS, "test_nn.py"),
        Put(COUNTING, "counting.py"),
        Put(LINEAR, "linear.py"),
    ),
    "A re-enactment: nn.Linear is one fused call here.",
)

FAST = (
    _docs("docs-bias", "Say what bias=False does", "Without ``bias`` the map is linear."),
    _test(
        "test-bias",
        "Test nn.Linear without a bias",
        "no_bias",
        "self.assertIsNone(nn.Linear(3, 2, bias=False).bias)",
    ),
    _code(
        "count-trainable",
        "Count trainable parameters apart",
        COUNTING,
        '\n\ndef count_trainable(module):\n    """Those that ask for a gradient."""\n'
        "    return sum(p.numel() for p in module.parameters() if p.requires_grad)\n",
    ),
    _notes("notes-new", "Begin a note on extending torch", "Extending torch\n==============="),
    Step(
        "doc-shape",
        "Say in the docstring which shapes nn.Linear takes",
        (
            Replace(
                LINEAR,
                '"""``input @ weight.T + bias`` over the last dimension."""',
                '"""``input @ weight.T + bias`` over the last dimension.\n\n'
                "    Takes (*, in_features), gives (*, out_features).\n"
                '    """',
            ),
        ),
    ),
    Step(
        "readme-run",
        "Say in the README how to run the tests",
        (Append("README.md", "\nTests: `python -m unittest discover test`.\n"),),
    ),
    _test(
        "test-repr",
        "Test the representation of nn.Linear",
        "repr",
        'self.assertIn("in_features=3", repr(nn.Linear(3, 2)))',
    ),
    _code(
        "freezing",
        "Add a helper that freezes a module",
        FREEZING,
        '"""Taking parameters out of training."""\n\n\ndef freeze(module):\n'
        '    """No parameter of it asks for a gradient any more; the module itself."""\n'
        "    for parameter in module.parameters():\n        parameter.requires_grad = False\n"
        "    return module\n",
    ),
    _docs("docs-bilinear", "Document nn.Bilinear", "``Bilinear`` pairs two inputs."),
    Step(
        "ignore",
        "Ignore compiled files",
        (Append(".gitignore", "__pycache__/\n"),),
    ),
    _notes("notes-functions", "Explain what a Function is", "A Function knows its gradient."),
    Step(
        "bilinear-checks",
        "Check that nn.Bilinear gets as many left as right rows",
        (
            Replace(
                LINEAR,
                "        return F.bilinear(",
                "        if input1.shape[:-1] != input2.shape[:-1]:\n"
                '            raise ValueError("both inputs need the same leading dimensions")\n'
                "        return F.bilinear(",
            ),
        ),
    ),
    _test(
        "test-grad-grad",
        "Test gradients of gradients of nn.Linear",
        "grad_grad",
        "data = torch.ones(2, 3, requires_grad=True)",
        "output = nn.Linear(3, 2)(data).pow(2).sum()",
        "grad = torch.autograd.grad(output, data, create_graph=True)[0]",
        "self.assertTrue(grad.requires_grad)",
    ),
)

TWICE = (
    Step(
        "twice",
        "added twice differentiation for a bunch of ops",
        (
            Append(FUNCTIONS + "__init__.py", '"""Functions behind the modules of torch.nn."""\n'),
            Put(FUNCTIONS + "blas.py", "blas.py"),
            Put(FUNCTIONS + "linear.py", "linear_function.py"),
            Replace(
                LINEAR,
                "from torch.nn import init\n",
                "from torch.nn import init\nfrom torch.nn._functions import linear as functions\n",
            ),
            Replace(
                LINEAR,
                "        return F.linear(input, self.weight, self.bias)\n",
                "        if input.dim() == 2 and self.bias is not None:\n"
                "            return functions.Linear.apply(input, self.weight, self.bias)\n"
                "        return F.linear(input, self.weight, self.bias)\n",
            ),
        ),
        "The gradient of nn.Linear is made of functions that have gradients themselves. (The name\n"
        "of a commit of 2017, re-enacted.)",
    ),
    _docs("docs-twice", "Say that nn.Linear can be differentiated twice", "Twice if you like."),
    _test(
        "test-vector",
        "Test nn.Linear on a vector",
        "vector",
        "self.assertEqual(nn.Linear(3, 2)(torch.zeros(3)).size(), (2,))",
    ),
    _code(
        "unfreeze",
        "Add the way back from freezing",
        FREEZING,
        '\n\ndef unfreeze(module):\n    """All parameters of it ask for gradients again."""\n'
        "    for parameter in module.parameters():\n        parameter.requires_grad = True\n"
        "    return module\n",
    ),
)

CANCELLING = (
    Step(
        "contiguous",
        "Hand on contiguous gradients in nn.Linear",
        (
            Append(
                FUNCTIONS + "blas.py",
                "\n\nclass Contiguous(Function):\n"
                '    """A matrix, its rows laid out one after the other."""\n\n'
                "    @staticmethod\n    def forward(ctx, matrix):\n"
                "        return matrix.contiguous()\n\n"
                "    @staticmethod\n    def backward(ctx, grad):\n"
                "        return Contiguous.apply(grad)\n",
            ),
            Replace(
                FUNCTIONS + "linear.py",
                "from .blas import Product,",
                "from .blas import Contiguous, Product,",
            ),
            Replace(
                FUNCTIONS + "linear.py",
                "        input, weight = ctx.saved_tensors\n",
                "        input, weight = ctx.saved_tensors\n"
                "        grad = Contiguous.apply(grad)\n",
            ),
            Replace(
                FUNCTIONS + "linear.py",
                "Product.apply(Transpose.apply(grad), input)",
                "Product.apply(Contiguous.apply(Transpose.apply(grad)), input)",
            ),
        ),
        "Products read rows fastest when they lie one after the other.",
    ),
    _notes("notes-save", "Explain save_for_backward", "Save tensors, not numbers, for backward."),
    _test(
        "test-contiguous",
        "Test that gradients of nn.Linear are contiguous",
        "contiguous",
        "layer = nn.Linear(3, 2)",
        "layer(torch.zeros(4, 3)).sum().backward()",
        "self.assertTrue(layer.weight.grad.is_contiguous())",
    ),
    _code(
        "count-buffers",
        "Count buffers as well",
        COUNTING,
        '\n\ndef count_buffers(module):\n    """The number of elements of all buffers."""\n'
        "    return sum(buffer.numel() for buffer in module.buffers())\n",
    ),
    Step(
        "readme-docs",
        "Say in the README where the documentation is",
        (Append("README.md", "\nDocumentation: `docs/source`.\n"),),
    ),
    _docs("docs-identity", "Document nn.Identity", "``Identity`` hands its input on."),
    _test(
        "test-bilinear",
        "Test the check of nn.Bilinear",
        "bilinear",
        "with self.assertRaises(ValueError):",
        "    nn.Bilinear(2, 2, 1)(torch.zeros(3, 2), torch.zeros(4, 2))",
    ),
    Step(
        "revert",
        'Revert "Hand on contiguous gradients in nn.Linear"',
        (
            Undo(FUNCTIONS + "blas.py", "contiguous"),
            Undo(FUNCTIONS + "linear.py", "contiguous"),
        ),
        "The products got no faster and the copies cost time.",
    ),
    _notes("notes-once", "Mark functions that cannot be differentiated twice", "Say so if not."),
    _code(
        "frozen",
        "Tell whether a module is frozen",
        FREEZING,
        '\n\ndef is_frozen(module):\n    """No parameter of it asks for a gradient."""\n'
        "    return not any(p.requires_grad for p in module.parameters())\n",
    ),
    _docs("docs-lazy", "Document nn.LazyLinear", "``LazyLinear`` learns its input's width."),
    _test(
        "test-lazy",
        "Test nn.LazyLinear",
        "lazy",
        "self.assertEqual(nn.LazyLinear(2)(torch.zeros(4, 3)).size(), (4, 2))",
    ),
)

MATMUL = (
    Step(
        "broken-missing",
        "Import matmul in nn.Linear",
        (
            Replace(
                LINEAR,
                "from torch.nn._functions import linear as functions\n",
                "from torch.nn._functions import linear as functions\n"
                "from torch.nn._functions.matmul import matmul\n",
            ),
        ),
        "The file it comes from was forgotten: torch cannot be imported here.",
    ),
    Step(
        "broken-syntax",
        "Begin matmul for any number of dimensions",
        (
            Append(
                FUNCTIONS + "matmul.py",
                '"""Products for any number of leading dimensions."""\n\n\n'
                "def matmul(left, right, row=None)\n"
                "    return left.matmul(right)\n",
            ),
        ),
        "A colon is missing: torch cannot be imported here either.",
    ),
    Step(
        "matmul",
        "Use torch.matmul in nn.Linear",
        (
            Put(FUNCTIONS + "matmul.py", "matmul.py"),
            Delete(FUNCTIONS + "linear.py"),
            Replace(
                LINEAR,
                "from torch.nn._functions import linear as functions\n",
                "from torch.nn._functions.blas import Transpose\n",
            ),
            Replace(
                LINEAR,
                "        if input.dim() == 2 and self.bias is not None:\n"
                "            return functions.Linear.apply(input, self.weight, self.bias)\n"
                "        return F.linear(input, self.weight, self.bias)\n",
                "        return matmul(input, Transpose.apply(self.weight), self.bias)\n",
            ),
        ),
        "It takes inputs of any number of dimensions, and torch can be imported again. (The name\n"
        "of a commit of 2017, re-enacted.)",
    ),
    _docs("docs-matmul", "Say that nn.Linear takes any leading dimensions", "As many as you like."),
    _test(
        "test-cube",
        "Test nn.Linear on three dimensions",
        "three_dimensions",
        "self.assertEqual(nn.Linear(3, 2)(torch.zeros(5, 4, 3)).size(), (5, 4, 2))",
    ),
    _code(
        "count-table",
        "Count parameters by name",
        COUNTING,
        '\n\ndef count_by_name(module):\n    """Name -> number of elements, in order."""\n'
        "    return {name: p.numel() for name, p in module.named_parameters()}\n",
    ),
    _notes("notes-shapes", "Explain shapes of gradients", "A gradient is shaped as its input."),
)

CHECKS = (
    Step(
        "checks",
        "Check shapes and types in the matrix functions",
        (
            Put(FUNCTIONS + "checks.py", "checks.py"),
            Replace(
                FUNCTIONS + "blas.py",
                "from torch.autograd import Function\n",
                "from torch.autograd import Function\n\n"
                "from .checks import conform, like, matrix\n",
            ),
            Replace(
                FUNCTIONS + "blas.py",
                "    def forward(ctx, matrix):\n        return matrix.t()\n",
                "    def forward(ctx, tensor):\n"
                "        matrix(tensor)\n        return tensor.t()\n",
            ),
            Replace(
                FUNCTIONS + "blas.py",
                "        ctx.save_for_backward(left, right)\n",
                "        conform(left, right)\n        ctx.save_for_backward(left, right)\n",
            ),
            Replace(
                FUNCTIONS + "blas.py",
                "        left, right = ctx.saved_tensors\n",
                "        left, right = ctx.saved_tensors\n"
                "        like(grad, left.size(0), right.size(1))\n",
            ),
            Replace(
                FUNCTIONS + "blas.py",
                "    def forward(ctx, matrix):\n"
                "        ctx.rows = matrix.size(0)\n        return matrix.sum(0)\n",
                "    def forward(ctx, tensor):\n        matrix(tensor)\n"
                "        ctx.rows = tensor.size(0)\n        return tensor.sum(0)\n",
            ),
            Replace(
                FUNCTIONS + "matmul.py",
                "from .blas import Product, RowSum\n",
                "from .blas import Product, RowSum\nfrom .checks import matrix as check\n",
            ),
            Replace(
                FUNCTIONS + "matmul.py",
                "        grad_row = RowSum",
                "        check(grad)\n        grad_row = RowSum",
            ),
        ),
        "Say in words what does not fit, before a product stumbles on it.",
    ),
    _test(
        "test-mismatch",
        "Test that nn.Linear refuses the wrong width",
        "mismatch",
        "with self.assertRaises(ValueError):",
        "    nn.Linear(3, 2)(torch.zeros(4, 5))",
    ),
    _docs("docs-errors", "Show what a wrong width says", "cannot multiply 5 columns by 3 rows"),
    _notes("notes-words", "Ask for words in errors", "Say what was expected and what came."),
    Step(
        "broken-paren",
        "Name the type in the representation of nn.Linear",
        (
            Replace(
                LINEAR,
                "            self.in_features, self.out_features, self.bias is not None\n"
                "        )\n\n\nclass NonDyn",
                "            self.in_features, self.out_features, self.bias is not None\n"
                "        ) + str(self.weight.dtype\n\n\nclass NonDyn",
            ),
        ),
        "A parenthesis is open: torch cannot be imported here.",
    ),
    Step(
        "mend",
        "Close the parenthesis in nn.Linear",
        (Replace(LINEAR, ") + str(self.weight.dtype\n", ") + str(self.weight.dtype)\n"),),
    ),
    _docs("docs-dtype", "Say how to see a layer's type", "Its representation names its type."),
    _code(
        "freeze-names",
        "Freeze parameters by name",
        FREEZING,
        '\n\ndef freeze_named(module, prefix):\n    """Those whose names begin with prefix."""\n'
        "    for name, parameter in module.named_parameters():\n"
        "        if name.startswith(prefix):\n            parameter.requires_grad = False\n",
    ),
)

SIDE = (
    _test(
        "side-test",
        "Test nn.Linear against the sum by hand",
        "by_hand",
        "layer, data = nn.Linear(3, 2), torch.ones(1, 3)",
        "expected = layer.weight.sum(1) + layer.bias",
        "self.assertTrue(torch.allclose(layer(data)[0], expected))",
    ),
    Step(
        "side-fuse",
        "Transpose, multiply and add in one function",
        (
            Put(FUNCTIONS + "matmul.py", "matmul_fused.py"),
            Replace(
                LINEAR,
                "from torch.nn._functions.blas import Transpose\n"
                "from torch.nn._functions.matmul import matmul\n",
                "from torch.nn._functions.matmul import affine\n",
            ),
            Replace(
                LINEAR,
                "        return matmul(input, Transpose.apply(self.weight), self.bias)\n",
                "        return affine(input, self.weight, self.bias)\n",
            ),
        ),
        "One function instead of three, forward and backward.",
    ),
    Step(
        "side-docs",
        "Note that fewer functions cost less",
        (
            Append(
                "docs/source/notes/speed.rst",
                "Speed\n=====\n\nOne function costs less than three.\n",
            ),
        ),
    ),
)

MERGED = (
    Step("merge", "Merge branch 'fuse-linear'", side=SIDE, fork="mend"),
    _docs("docs-speed", "Point to the note on speed", "See the note on speed."),
    Step(
        "bilinear-doc",
        "Say in the docstring which shapes nn.Bilinear takes",
        (
            Replace(
                LINEAR,
                '"""``left @ weight[k] @ right + bias[k]`` for each output feature k."""',
                '"""``left @ weight[k] @ right + bias[k]`` for each output feature k.\n\n'
                "    Takes (*, in1_features) and (*, in2_features), gives (*, out_features).\n"
                '    """',
            ),
        ),
    ),
    _notes("notes-compiled", "Say when to leave Python", "What runs often belongs in C++."),
    _code(
        "count-frozen",
        "Count frozen parameters",
        COUNTING,
        '\n\ndef count_frozen(module):\n    """Those that ask for no gradient."""\n'
        "    return count_parameters(module) - count_trainable(module)\n",
    ),
)

COMPILED = (
    Step(
        "compiled",
        "Move the functions behind nn.Linear to C++",
        (
            Delete(FUNCTIONS + "__init__.py"),
            Delete(FUNCTIONS + "blas.py"),
            Delete(FUNCTIONS + "checks.py"),
            Delete(FUNCTIONS + "matmul.py"),
            Replace(
                LINEAR,
                "from torch.nn._functions.matmul import affine\n",
                "",
            ),
            Replace(
                LINEAR,
                "        return affine(input, self.weight, self.bias)\n",
                "        return F.linear(input, self.weight, self.bias)\n",
            ),
        ),
        "Represented by the fused call, whose compiled gradient can be differentiated twice.",
    ),
    Step(
        "test-errors",
        "Expect the compiled functions' own errors",
        (
            Replace(
                TESTS,
                "(ValueError):\n            nn.Linear(",
                "(RuntimeError):\n            nn.Linear(",
            ),
        ),
    ),
    _docs("docs-compiled", "Say that nn.Linear is compiled", "All of it runs in C++."),
    _notes("notes-python", "Say what stays in Python", "Modules stay in Python."),
    Step(
        "readme-history",
        "Say in the README where to start reading",
        (Append("README.md", "\nStart with `git log --first-parent`.\n"),),
    ),
    _code(
        "unfreeze-names",
        "Unfreeze parameters by name",
        FREEZING,
        '\n\ndef unfreeze_named(module, prefix):\n    """Those whose names begin with prefix."""\n'
        "    for name, parameter in module.named_parameters():\n"
        "        if name.startswith(prefix):\n            parameter.requires_grad = True\n",
    ),
)

LINE = (BASE, *FAST, *TWICE, *CANCELLING, *MATMUL, *CHECKS, *MERGED, *COMPILED)

TRUTHS = {
    "twice": Truth("regression"),
    "contiguous": Truth("regression", GRADIENT),
    "revert": Truth("improvement", GRADIENT),
    "matmul": Truth("regression"),
    "checks": Truth("regression", tuple(LINEAR_WORKLOADS)),
    "side-fuse": Truth("improvement"),
    "compiled": Truth("improvement"),
}

DOUBTFUL = {
    "checks": {
        LABELER: "it moves the labeler by some 4 to 6 %, each figure good to 2 %: too near to the "
        "default smallest step of 3 % for one answer to be the right one every time"
    },
}
"""What a truth does to other workloads, where a search may rightly say either."""

BROKEN = ("broken-missing", "broken-syntax", "broken-paren")

NULL_RANGE = ("docs-bias", "notes-functions")
