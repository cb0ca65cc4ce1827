"""What every test starts from."""

import signal

# A shell that runs tests in the background has these ignored, and whatever a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
