"""The command of ``arena submit``, without the quotes that Arena's chart removes."""

import yaml

_QUOTES = ("'", '"')


def unquote(command: str) -> str:
    """
    *command*, or the text inside its quotes when it is one quoted YAML string.

    Arena's chart inserts the command into a YAML list without quotes of its own, and Arena's documentation writes
    ``"'python main.py --steps 5'"``. A command that only begins or ends with a quoted word is left alone.
    """
    text = command.strip()
    if text[:1] not in _QUOTES or text[-1:] != text[0]:
        return command
    try:
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return command
    return node.value if isinstance(node, yaml.ScalarNode) and node.style == text[0] else command
