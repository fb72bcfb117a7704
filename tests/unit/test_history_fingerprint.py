from __future__ import annotations

from bisectorch.history.fingerprint import Fingerprint
from bisectorch.model import NO_NATIVE_FILES
from hypothesis import given
from hypothesis import strategies as st

FILE = st.tuples(st.text(min_size=1), st.sampled_from(["100644", "100755"]), st.text("0123456789"))


def fingerprint(files: list[tuple[str, str, str]]) -> str:
    """From scratch."""
    running = Fingerprint()
    for file in files:
        running.add(*file)
    return str(running)


@given(st.lists(FILE), st.randoms(use_true_random=False))
def test_it_is_free_of_order(files: list[tuple[str, str, str]], random: object) -> None:
    """The same files in any order are one fingerprint."""
    shuffled = files.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fingerprint(shuffled) == fingerprint(files)


@given(st.lists(FILE), st.lists(FILE))
def test_what_is_taken_out_is_gone(
    kept: list[tuple[str, str, str]], gone: list[tuple[str, str, str]]
) -> None:
    """Putting files in and taking them out leaves no trace."""
    running = Fingerprint(fingerprint(kept))
    for file in gone:
        running.add(*file)
    for file in reversed(gone):
        running.remove(*file)
    assert str(running) == fingerprint(kept)


@given(st.sets(FILE, min_size=1), FILE)
def test_other_files_are_another_fingerprint(
    files: set[tuple[str, str, str]], other: tuple[str, str, str]
) -> None:
    """Path, mode and content all count, and no file is no native file."""
    assert fingerprint([]) == NO_NATIVE_FILES
    assert fingerprint(list(files)) != NO_NATIVE_FILES
    if other not in files:
        assert fingerprint([*files, other]) != fingerprint(list(files))
