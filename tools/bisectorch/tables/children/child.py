"""What runs in the child that measures: one action, its answer as JSON in a file.

Standard library and the benchmarks' workloads only, Python 3.6 syntax: the interpreter is the
torch's or a comparator's. An answer holds ``figures`` (name -> seconds), ``missing`` (name -> why)
and ``facts``. Standard output is the libraries' own.

    python child.py ROOT FOLDER CORE REQUEST ANSWER

ROOT is the directory above the benchmarks' FOLDER, CORE a core to stay on or -1, REQUEST a JSON
list of action and arguments, ANSWER the file to write.
"""

import functools
import importlib
import json
import math
import os
import sys
from typing import Any, Dict, List, Optional

EPOCHS = 10
TOKENS = 1072
CHAINS = 500


class Actions:
    """Each method is an action; ``folder`` names the benchmarks' package."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def load(self, name: str) -> Any:
        """One module of the workloads."""
        return importlib.import_module("%s.workloads.%s" % (self.folder, name))

    def labeler(
        self,
        stages: List[str],
        epochs: int = EPOCHS,
        labels: int = 32,
        rate: float = 0.01,
        minibatches: Optional[int] = None,
    ) -> Dict[str, Any]:
        """Seconds of ``epochs`` epochs up to each stage, scaled to ten whole epochs."""
        model, compat = self.load("sequence_labeler"), self.load("compat")
        timed = beside("stopwatch").timed
        model.check_once()
        figures, facts = {}, {}  # type: Dict[str, float], Dict[str, Any]
        for stage in stages:
            model.Training(labels, rate).run(1, stage, 1)
            training = model.Training(labels, rate)
            work = functools.partial(training.run, epochs, stage, minibatches)
            seconds, losses = timed(work)
            figures[stage] = seconds * scale(training.data, epochs, minibatches)
            if losses[-1] is not None:
                facts["loss"] = [compat.scalar(losses[0]), compat.scalar(losses[-1])]
                compat.check_finite("the loss", facts["loss"])
        facts["parameters"] = sum(p.data.numel() for p in training.model.parameters())
        return {"figures": figures, "facts": facts}

    def functions(self, epochs: int = EPOCHS) -> Dict[str, Any]:
        """Seconds of the backward pass by function, scaled to ten epochs; and their names here."""
        model = self.load("sequence_labeler")
        model.check_once()
        figures, names = {}, {}  # type: Dict[str, float], Dict[str, str]
        for _ in range(epochs):
            for name, (own, _, seconds) in model.backward_seconds().items():
                figures[name] = figures.get(name, 0.0) + seconds * EPOCHS / epochs
                names[name] = own
        return {"figures": figures, "facts": {"names": names}}

    def chain(self, count: int = CHAINS) -> Dict[str, Any]:
        """Seconds of backward through ``count`` fresh chains, scaled to 500."""
        model = self.load("linear")
        model.Chain().backward()
        timed = beside("stopwatch").timed
        total = sum(timed(model.Chain().backward)[0] for _ in range(count))
        return {"figures": {"backward": total * CHAINS / count}}

    def overhead(self, calls: int) -> Dict[str, Any]:
        """Seconds of ``calls`` calls by variant, scaled to 100,000; the least of five turns."""
        model = self.load("autograd_overhead")
        figures, missing, made = {}, {}, {}  # type: Dict[str, float], Dict[str, str], Dict[str, Any]
        for variant in model.VARIANTS:
            try:
                made[variant] = model.Overhead(variant)
                made[variant].run(calls // 10)
            except NotImplementedError as error:
                missing[variant] = str(error)
        timed = beside("stopwatch").timed
        turns = {variant: [] for variant in made}  # type: Dict[str, List[float]]
        for _ in range(5):
            for variant, each in made.items():
                turns[variant].append(timed(functools.partial(each.run, calls))[0])
        for variant, seconds in turns.items():
            figures[variant] = min(seconds) * model.CALLS / calls
        return {"figures": figures, "missing": missing}

    def characters(self, model: str, length: int, steps: int, device: str) -> Dict[str, Any]:
        """Seconds of one training step, over ``steps`` after one that is not counted; losses."""
        module = self.load("char_lm")
        training = module.Training(model, length, device)
        losses = training.check(2)
        seconds, more = beside("stopwatch").timed(lambda: training.run(steps))
        parts = module.layers(model)
        return {
            "figures": {"step": seconds / steps},
            "facts": {
                "loss": [losses[0], more[-1]],
                "steps": steps + len(losses),
                "parts": [count for _, count in parts],
                "distinct": module.PARAMETERS[model],
            },
        }

    def profile(self, model: str, length: int, steps: int, device: str) -> Dict[str, Any]:
        """Seconds a step of each operator, without what it calls; and its calls a step."""
        module, compat = self.load("char_lm"), self.load("compat")
        training = module.Training(model, length, device)
        training.check(2)
        found = compat.profiled(lambda: training.run(steps))
        figures = {name: own / steps for name, (_, _, own) in found.items()}
        calls = {name: count / float(steps) for name, (count, _, _) in found.items()}
        return {"figures": figures, "facts": {"calls": calls}}

    def dynet(
        self,
        stages: List[str],
        epochs: int = EPOCHS,
        labels: int = 32,
        rate: float = 0.01,
        minibatches: Optional[int] = None,
    ) -> Dict[str, Any]:
        """As ``labeler``, by DyNet."""
        data, model = self.load("labeler_data"), beside("dynet_labeler")
        figures, facts = {}, {}  # type: Dict[str, float], Dict[str, Any]
        for stage in stages:
            found = model.labeler(data, epochs, stage, labels, rate, minibatches)
            figures[stage] = found["seconds"] * scale(found["sentences"], epochs, minibatches)
            facts["parameters"] = found["parameters"]
            if found["losses"]:
                last = found["losses"][-(minibatches or len(data.sentences()) // data.MINIBATCH) :]
                facts["loss"] = [last[0], last[-1]]
        return {"figures": figures, "facts": facts}

    def dynet_functions(self, epochs: int = EPOCHS) -> Dict[str, Any]:
        """Train under DyNet's profiler, which writes to standard output when the process ends."""
        beside("dynet_labeler").profile(self.load("labeler_data"), epochs)
        return {"facts": {"scale": EPOCHS / float(epochs)}}

    def keras(self, length: int, steps: int) -> Dict[str, Any]:
        """Seconds of one training step of keras-tcn on the same text."""
        found = beside("keras_characters").train(self.load("text"), length, steps)
        return dict(found)


def scale(sentences: List[Any], epochs: int, minibatches: Optional[int]) -> float:
    """From the tokens that were labelled to those of ten whole epochs."""
    if minibatches is None:
        return EPOCHS / float(epochs)
    # The order is that of the last epoch; with fewer minibatches there is only one.
    tokens = sum(len(words) for words, _ in sentences[: 5 * minibatches])
    return EPOCHS * TOKENS / float(tokens * epochs)


def beside(name: str) -> Any:
    """One module beside this file: the clock, or one that imports what torch is compared with."""
    return importlib.import_module(name)


def versions() -> Dict[str, str]:
    """What is loaded by now, and how many threads it uses."""
    found = {"Python": "%d.%d.%d" % sys.version_info[:3]}
    for name in ("torch", "numpy", "dynet", "tensorflow", "keras"):
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__version__", None):
            found[name] = str(module.__version__)
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch threads"] = str(torch.get_num_threads())
    return found


def one_line(error: BaseException) -> str:
    """The first line of what went wrong."""
    said = str(error).strip().splitlines()
    return said[0][:300] if said else type(error).__name__


def answer(folder: str, action: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
    """Carry it out; what goes wrong becomes the answer."""
    try:
        found = dict(getattr(Actions(folder), action)(**arguments))
        for name, value in found.get("figures", {}).items():
            if not math.isfinite(value):
                found.setdefault("missing", {})[name] = "measured %r" % value
        found["figures"] = {
            name: value for name, value in found.get("figures", {}).items() if math.isfinite(value)
        }
    except ImportError as error:
        found = {"missing": {"": one_line(error)}, "import": getattr(error, "name", None) or ""}
    except NotImplementedError as error:
        found = {"missing": {"": one_line(error)}}
    except MemoryError:
        found = {"missing": {"": "out of memory"}}
    except Exception as error:
        found = {"missing": {"": "%s: %s" % (type(error).__name__, one_line(error))}}
    found.setdefault("facts", {})["versions"] = versions()
    return found


def main(arguments: List[str]) -> None:
    """Pin this process, then measure."""
    root, folder, core, request, target = arguments
    if int(core) >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    own = os.path.dirname(os.path.abspath(__file__))
    # This folder's modules must not shadow anybody's.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != own]
    sys.path[:0] = [root]
    sys.path.append(own)
    action, given = json.loads(request)
    found = answer(folder, action, given)
    with open(target, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(sys.argv[1:])
