"""What Stowage raises: one class for each kind of error, with the library's message.

Every class is also the built-in one that says the same, so that code which knows nothing
of Stowage catches what it expects:

    try:
        plan = stowage.plan("gpt-nano", budget="1MB")
    except stowage.BudgetTooSmall as error:
        print(error)  # names the need, its cause, and the budgets that work
"""


class StowageError(Exception):
    """Any error of Stowage's."""


class InvalidArgument(StowageError, ValueError):
    """A shape, a name, a number or a file's contents is wrong."""


class WrongDType(InvalidArgument, TypeError):
    """An array has elements of another type than is wanted."""


class Closed(InvalidArgument):
    """The trainer is closed."""


class BudgetTooSmall(StowageError, MemoryError):
    """The plan needs more bytes than the budget; the message names budgets that work."""


class Unsupported(StowageError, NotImplementedError):
    """Well-formed, but this build or device cannot do it."""


class NotFound(StowageError, LookupError):
    """There is no such name, model or file."""


class DeviceError(StowageError, RuntimeError):
    """There is no such device, or it failed."""


class Forked(StowageError, RuntimeError):
    """The trainer is of a process that this one was forked from."""


class FileError(StowageError, OSError):
    """The operating system refused to read or write."""


class NotFinite(StowageError, ArithmeticError):
    """Training has made NaN or infinity."""
