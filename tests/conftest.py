"""What every test may ask for."""

import numpy as np
from threadpoolctl import threadpool_limits

assert np  # its libraries must be loaded before they can be limited
pytest_plugins = ("torch_env", "cluster")

# As the command line does: on small matrices spinning threads cost ten times what they save.
threadpool_limits(1)
