"""How names and labels of objects are written; defined in ``launcher.core.checking.syntax``."""

from launcher.core.checking.syntax import label_key_fault, label_value_fault, name_fault, namespace_fault

__all__ = ["label_key_fault", "label_value_fault", "name_fault", "namespace_fault"]
