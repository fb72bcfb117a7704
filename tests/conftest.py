"""What every test may ask for."""

import signal

import numpy as np
from threadpoolctl import threadpool_limits

assert np  # its libraries must be loaded before they can be limited
pytest_plugins = ("torch_env", "cluster")

# As the command line does: on small matrices spinning threads cost ten times what they save.
threadpool_limits(1)

# A shell starts what it runs in the background deaf to Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
