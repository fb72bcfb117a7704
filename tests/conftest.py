"""What every test may ask for."""

pytest_plugins = ("torch_env",)
