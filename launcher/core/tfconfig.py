"""TF_CONFIG, byte for byte as the training operator writes it: who the tasks are, and which of them reads this."""

from collections.abc import Mapping, Sequence

import orjson

#: The types of tasks that TensorFlow knows.
TYPES = ("chief", "master", "worker", "ps", "evaluator")
#: Where a task listens if nothing else is said.
PORT = 2222


def tf_config(cluster: Mapping[str, Sequence[str]], type_: str, index: int | str) -> str:
    """
    What task *index* of *type_* is told: every task's ``host:port`` by type, and its own place.

    An index that is a text, such as a placeholder, stands there without quotes.
    """
    sorted_cluster = {each: list(cluster[each]) for each in sorted(cluster)}
    written = orjson.dumps(sorted_cluster).decode()
    return f'{{"cluster":{written},"task":{task_of(type_, index)},"environment":"cloud"}}'


def task_of(type_: str, index: int | str) -> str:
    """The part that says who reads it."""
    return f'{{"type":"{type_}","index":{index}}}'
