"""keras-tcn's character model: the layout of the TCN in torch, its text, its batch.

Runs in a child, in an environment that has TensorFlow and keras-tcn. One stack, kernel 3,
dilations 1, 2, 4, dropout 0.1; SGD at 4, clipped at 0.15. keras-tcn has no weight norm any more,
so it has one length a filter fewer: 2,224,899 parameters, its decoder's own weight included.
"""

import importlib
import os
from typing import Any, Dict

EMBEDDING = 100
BATCH = 32


def train(text: Any, length: int, steps: int) -> Dict[str, Any]:
    """Seconds a step over ``steps``, after two that are not counted; losses and parameters."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    numpy = importlib.import_module("numpy")
    tcn = importlib.import_module("tcn")
    keras = importlib.import_module("keras")
    tensorflow = importlib.import_module("tensorflow")
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(text.SEED)

    model = keras.Sequential(
        [
            keras.Input((length,), dtype="int32"),
            keras.layers.Embedding(text.VOCABULARY, EMBEDDING),
            keras.layers.Dropout(0.1),
            tcn.TCN(
                nb_filters=[450, 450, EMBEDDING],
                kernel_size=3,
                dilations=[1, 2, 4],
                dropout_rate=0.1,
                use_skip_connections=False,
                return_sequences=True,
            ),
            keras.layers.Dense(text.VOCABULARY),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(4.0, global_clipnorm=0.15),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    data, following = (numpy.array(rows, dtype="int32") for rows in text.batch(BATCH, length))
    losses = [float(model.train_on_batch(data, following)) for _ in range(2)]

    def step() -> float:
        # keras shows the mean since the last reset.
        model.reset_metrics()
        return float(model.train_on_batch(data, following))

    timed = importlib.import_module("stopwatch").timed
    seconds, more = timed(lambda: [step() for _ in range(steps)])
    losses += more
    return {
        "figures": {"step": seconds / steps},
        "facts": {
            "loss": [losses[0], losses[-1]],
            "steps": len(losses),
            "parts": [int(layer.count_params()) for layer in model.layers],
        },
    }
