"""Exceptions of Stowage: one class for each kind of error, with the library's message.

Every class also derives from the matching built-in exception, so that generic code can catch it:

    try:
        plan = stowage.plan("gpt-nano", budget="1MB")
    except stowage.BudgetTooSmall as error:
        print(error)  # names the need, its cause, and the budgets that work
"""


class StowageError(Exception):
    """Base class of Stowage's errors."""


class InvalidArgument(StowageError, ValueError):
    """A shape, a name, a number or a file's contents is wrong."""


class WrongDType(InvalidArgument, TypeError):
    """An array has the wrong element type."""


class Closed(InvalidArgument):
    """The trainer is closed."""


class BudgetTooSmall(StowageError, MemoryError):
    """The plan needs more bytes than the budget; the message names budgets that work."""


class Unsupported(StowageError, NotImplementedError):
    """This build or device does not support a valid request."""


class NotFound(StowageError, LookupError):
    """An unknown name, model or file."""


class DeviceError(StowageError, RuntimeError):
    """The device does not exist, or failed."""


class Forked(StowageError, RuntimeError):
    """The trainer belongs to the parent process of a fork."""


class FileError(StowageError, OSError):
    """The operating system refused to read or write."""


class NotFinite(StowageError, ArithmeticError):
    """Training computed NaN or infinity."""
