"""What autograd adds to one small operation, by how the operation is written."""

import sys

from .workloads import autograd_overhead as model
from .workloads import compat

CALLS = 1000


class Overhead(object):
    """Seconds for CALLS calls; the account's figures are for 100,000.

    The C++ function is compiled when it is first needed, which takes a minute.
    """

    params = (model.VARIANTS, compat.devices())
    param_names = ("variant", "device")
    timeout = 600

    def setup(self, variant, device):
        try:
            self.overhead = model.Overhead(variant, device)
        except NotImplementedError as reason:
            # asv shows what a benchmark writes, not what it skips for.
            sys.stderr.write("skipped: %s\n" % reason)
            raise

    def time_calls(self, variant, device):
        self.overhead.run(CALLS)


Overhead.time_calls.pretty_name = "Autograd overhead: {} calls".format(CALLS)
