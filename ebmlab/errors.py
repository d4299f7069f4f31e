"""The one exception that means: the user can mend this."""


class UserError(Exception):
    """Bad input: a config, data set, checkpoint, shape or machine that does not fit.

    The message is one line: what is wrong, where, and what would be right. The command line prints it
    without a traceback and exits with code 2.
    """
