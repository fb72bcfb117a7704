"""Which machine this is, as asv knows it, without asking questions."""

from __future__ import annotations

from collections.abc import Mapping

from asv.machine import Machine, MachineCollection
from asv.util import UserError

from bisectorch.errors import UsageError


def identify(name: str | None, results_dir: str) -> Mapping[str, str]:
    """This machine's parameters, saved for asv beside its results.

    A machine that asv has never met is entered under its defaults, as ``asv machine --yes``
    does; a name asked for that asv does not know is a UsageError.
    """
    try:
        values = MachineCollection.load(name or Machine.get_unique_machine_name())
    except UserError as error:
        if name:
            raise UsageError(f"{error} Enter it with `bisectorch machine --machine {name}`.") from (
                error
            )
        values = Machine.get_defaults()
        MachineCollection.save(values["machine"], values)
    machine = Machine()
    machine.__dict__.update(values)
    machine.save(results_dir)
    return {key: str(value) for key, value in values.items() if key != "version"}
