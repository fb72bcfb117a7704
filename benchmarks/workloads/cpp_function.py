"""An autograd Function in C++, built once for each torch and Python by torch's own tool.

The build goes into ``extensions/`` of Bisectorch's store (BISECTORCH_EXTENSIONS names another
place). What stands in its way is a NotImplementedError with one line: asv skips the benchmark.
"""

import contextlib
import hashlib
import os
import shutil
import sys
from pathlib import Path

import torch

SOURCE = """
#include <torch/extension.h>

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Add : public torch::autograd::Function<Add> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& left, const at::Tensor& right) {
    return left.add(right);
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {gradients[0], gradients[0]};
  }
};

at::Tensor add(const at::Tensor& left, const at::Tensor& right) { return Add::apply(left, right); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("add", &add); }
"""

_loaded = []


def load():
    """The module, with its one function ``add``; NotImplementedError where it cannot be had."""
    if not _loaded:
        _loaded.append(_build())
    return _loaded[0]


def folder():
    """Where this torch's build goes: Python files of torch do not change what is compiled."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~", ".cache"))
    store = Path(os.environ.get("BISECTORCH_STORE") or cache / "bisectorch" / "store")
    root = Path(os.environ.get("BISECTORCH_EXTENSIONS") or store / "extensions")
    commit = str(getattr(torch.version, "git_version", ""))
    text = "\n".join([SOURCE, sys.version, torch.__version__, commit])
    return root.expanduser() / hashlib.sha1(text.encode()).hexdigest()[:16]


def _build():
    try:
        from torch.utils import cpp_extension
    except ImportError as error:
        raise NotImplementedError("this torch builds no C++ extensions: %s" % error) from None
    compiler = os.environ.get("CXX") or "c++"
    if shutil.which(compiler.split()[0]) is None:
        raise NotImplementedError(
            "no C++ compiler is found as %r: install one (g++), or set CXX" % compiler
        )
    before = os.environ.get("PATH", "")
    # pip puts ninja beside the interpreter, which need not be on the PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), before])
    if shutil.which("ninja", path=path) is None:
        raise NotImplementedError(
            "torch builds extensions with ninja, which is not found: install it"
        )
    target = folder()
    name = "bisectorch_add"
    source = target / (name + ".cpp")
    try:
        os.environ["PATH"] = path
        target.mkdir(parents=True, exist_ok=True)
        if not source.exists():
            half = target / ("%d.half" % os.getpid())
            half.write_text(SOURCE)
            half.replace(source)
        # What the tools print belongs to no figure; on a failure the error repeats it.
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            return cpp_extension.load(
                name=name,
                sources=[str(source)],
                build_directory=str(target),
                extra_cflags=["-O2"],
            )
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        told = [line for line in lines if " error: " in line] or lines
        line = told[0].split(" error: ")[-1].strip()
        raise NotImplementedError("the C++ function cannot be built: %s" % line[:200]) from None
    finally:
        os.environ["PATH"] = before
