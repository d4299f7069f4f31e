"""The one exception that means: the user can mend this."""


class UserError(Exception):
    """Bad input: a config, data set, checkpoint, shape or machine that does not fit.

    The message is one line: what is wrong, where, and what would be right. The command line prints it
    without a traceback and exits with code 2.
    """


def one_line(error: Exception) -> str:
    """What somebody else's error says, short enough to be quoted in a `UserError`; its kind where it says nothing."""
    return " ".join(str(error).split())[:200] or type(error).__name__
