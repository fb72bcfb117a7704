from __future__ import annotations

import pytest
from bisectorch.build.packages import PackageRule, read_rule

CFG = b"[options]\npackages = find:\n[options.packages.find]\nexclude =\n  t\n  u\n"
CALL = b"from setuptools import find_packages, setup\nsetup(packages=%s)\n"


@pytest.mark.parametrize(
    ("texts", "rule"),
    [
        ({"setup.py": CALL % b"find_packages()"}, PackageRule()),
        (
            {"setup.py": CALL % b"find_packages(exclude=['a', 'a.*'])"},
            PackageRule(exclude=("a", "a.*")),
        ),
        (
            {"setup.py": CALL % b"setuptools.find_packages('.', ('x',))"},
            PackageRule(("*",), ("x",)),
        ),
        ({"setup.py": CALL % b"find_packages(include=('a*',))"}, PackageRule(("a*",))),
        ({"setup.py": CALL % b"find_packages(where='src')"}, None),
        ({"setup.py": CALL % b"find_packages(exclude=names)"}, None),
        ({"setup.py": CALL % b"find_packages() + find_packages('x')"}, None),
        ({"setup.py": CALL % b"find_namespace_packages()"}, None),
        ({"setup.py": CALL % b"['a', 'b']"}, None),
        ({"setup.py": b"print 'Python 2'\n"}, None),
        ({"setup.cfg": b"[options]\npackages = find:\n"}, PackageRule()),
        (
            {"setup.cfg": CFG},
            PackageRule(exclude=("t", "u")),
        ),
        ({"setup.cfg": b"[options]\npackages = find_namespace:\n"}, None),
        ({"setup.cfg": b"broken"}, None),
        (
            {
                "setup.py": CALL % b"find_packages()",
                "pyproject.toml": b"[tool.setuptools.packages.find]\n",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_only_what_is_stated_literally_is_a_rule(
    texts: dict[str, bytes], rule: PackageRule | None
) -> None:
    """What would have to be run to be known is not guessed."""
    assert read_rule(texts, "") == rule


def test_a_rule_is_for_its_own_directory() -> None:
    """Packages in src/ are found from there, and from nowhere else."""
    assert read_rule({"setup.py": CALL % b"find_packages('src')"}, "src") == PackageRule()
    assert read_rule({"setup.py": CALL % b"find_packages('src')"}, "") is None


def test_every_directory_on_the_way_must_be_a_package() -> None:
    """As setuptools walks them."""
    rule = PackageRule(exclude=("a.x",))
    inits = {"a", "a/b", "a/x", "a/x/y", "c/d"}
    assert {d: rule.installs(d, inits) for d in ("a", "a/b", "a/x", "a/x/y", "c", "c/d")} == {
        **{"a": True, "a/b": True, "a/x": False},
        # An excluded package's own packages are not excluded with it.
        **{"a/x/y": True, "c": False, "c/d": False},
    }
