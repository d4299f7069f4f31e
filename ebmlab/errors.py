"""The exception for mistakes that the user can correct."""


class UserError(Exception):
    """Bad input: a config, data set, checkpoint, shape or machine that does not fit.

    The message is one line: what is wrong, where, and what would be right. The command line prints it
    without a traceback and exits with code 2.

    Example:
        >>> raise UserError("step_size is -1, but must be positive")
        Traceback (most recent call last):
        ebmlab.errors.UserError: step_size is -1, but must be positive
    """


def one_line(error: Exception) -> str:
    """The message of any error, as one line of at most 200 characters for a `UserError` to quote.

    The type's name stands in for an empty message.

    Example:
        >>> one_line(ValueError("a   long message")), one_line(MemoryError())
        ('a long message', 'MemoryError')
    """
    return " ".join(str(error).split())[:200] or type(error).__name__
