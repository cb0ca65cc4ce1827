"""Why a volume is not there."""

from launcher.core.errors import LauncherError


class CannotMount(LauncherError):
    """The volume cannot be made ready as things are; the same may work later."""
