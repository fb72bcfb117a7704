"""Small calls, attributes and allocations: what a small operator costs beside its arithmetic."""


class _Layer:
    def __init__(self) -> None:
        self.weight = [0.5] * 8
        self.hooks: dict[str, object] = {}

    def __call__(self, data: list[float]) -> list[float]:
        if self.hooks:
            return data
        return [x * w for x, w in zip(data, self.weight)]  # noqa: B905 (every Python)


_LAYERS = [_Layer() for _ in range(20)]


def time_small_calls() -> None:
    """Some 15 microseconds."""
    data = [1.0] * 8
    for layer in _LAYERS:
        data = layer(data)
