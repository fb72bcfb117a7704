from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from bisectorch.history import PathClasses
from bisectorch.history.classes import glob_to_regex
from bisectorch.model import PathClass
from hypothesis import given
from hypothesis import strategies as st

SEGMENT = st.text("ab.-+", min_size=1, max_size=3)
PATH = st.lists(SEGMENT, min_size=1, max_size=5).map("/".join)
GLOB = st.lists(
    st.one_of(
        st.just("**"), st.text("ab*?.-+", min_size=1, max_size=3).filter(lambda s: s != "**")
    ),
    min_size=1,
    max_size=5,
).map("/".join)


def matches(glob: list[str], path: list[str]) -> bool:
    """The meaning of a glob, segment by segment, written the slow way."""
    if not glob:
        return not path
    if glob[0] == "**":
        if len(glob) == 1:
            return bool(path)
        return any(matches(glob[1:], path[skip:]) for skip in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], glob[0]) and matches(glob[1:], path[1:])


@given(GLOB, PATH)
def test_a_glob_means_what_its_segments_mean(glob: str, path: str) -> None:
    """The regular expression agrees with a matcher that walks segments."""
    found = re.fullmatch(glob_to_regex(glob), path) is not None
    assert found is matches(glob.split("/"), path.split("/"))


@given(st.lists(st.tuples(st.booleans(), GLOB), max_size=6), PATH)
def test_the_last_matching_glob_decides(signed: list[tuple[bool, str]], path: str) -> None:
    """A later glob overrules an earlier one, and ! takes back."""
    expected = False
    for takes, glob in signed:
        if matches(glob.split("/"), path.split("/")):
            expected = takes
    globs = tuple(glob if takes else f"!{glob}" for takes, glob in signed)
    assert PathClasses(python_only=globs, irrelevant=()).is_python(path) is expected


@given(st.lists(PATH, max_size=6))
def test_the_strongest_class_wins(paths: list[str]) -> None:
    """One native file makes a native commit; only irrelevant files make an irrelevant one."""
    classes = PathClasses(python_only=("a*/**", "a*"), irrelevant=("b*/**", "b*"))
    each = [classes.classify(path) for path in paths]
    strongest = classes.strongest(paths)
    assert (strongest is PathClass.NATIVE) is (PathClass.NATIVE in each)
    assert (strongest is PathClass.IRRELEVANT) is (set(each) <= {PathClass.IRRELEVANT})


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("torch/**/*.py", "torch/x.py", True),
        ("torch/**/*.py", "torch/nn/modules/x.py", True),
        ("torch/**/*.py", "torchgen/x.py", False),
        ("*.md", "docs/x.md", False),
        ("**/*.md", "x.md", True),
        ("docs/**", "docs", False),
        ("a[!b]c", "axc", True),
        ("a[!b]c", "a/c", False),
        ("a[bx]c", "abc", True),
        ("a.c", "abc", False),
        ("a[b", "a[b", True),
        ("x/**", "x/line\nbreak", True),
    ],
)
def test_globs_by_example(glob: str, path: str, expected: bool) -> None:
    """Examples worth reading."""
    assert PathClasses(python_only=(glob,), irrelevant=()).is_python(path) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("torch/nn/functional.py", PathClass.PYTHON),
        ("torch/cuda/__init__.py", PathClass.PYTHON),
        ("torch/nn/functional.pyi", PathClass.PYTHON),
        ("torch/csrc/jit/tensorexpr/codegen_external.py", PathClass.NATIVE),
        ("torch/lib/ATen/gen.py", PathClass.NATIVE),
        ("torch/lib/THC/THCTensor.cu", PathClass.IRRELEVANT),
        ("torchgen/gen.py", PathClass.NATIVE),
        ("tools/autograd/derivatives.yaml", PathClass.NATIVE),
        ("third_party/eigen", PathClass.NATIVE),
        ("setup.py", PathClass.NATIVE),
        ("CMakeLists.txt", PathClass.NATIVE),
        ("aten/src/ATen/native/cpu/README.md", PathClass.IRRELEVANT),
        ("test/test_nn.py", PathClass.IRRELEVANT),
        ("README.md", PathClass.IRRELEVANT),
    ],
)
def test_the_defaults_know_pytorch(path: str, expected: PathClass) -> None:
    """What nobody vouched for is native."""
    assert PathClasses().classify(path) is expected
