"""`python -m ebmlab`. What needs no heavy packages is answered before they are imported."""

import os
import sys


def _leave_out_working_directory() -> None:
    """`python -m` puts the working directory first on the path of modules: a file there would be run as any module."""
    try:
        if sys.path[:1] in ([os.getcwd()], [""]) and not sys.flags.safe_path:
            sys.path.pop(0)
    except OSError:  # it has been deleted
        pass


if __name__ == "__main__":
    _leave_out_working_directory()

# ruff: noqa: E402
import signal
from types import FrameType

from ebmlab.numerics.launch import launched_rank


def main() -> None:
    """Answers at once if no command has to run; otherwise runs the command."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _leave)
    try:
        from ebmlab.app.failures import in_one_line, loading
        from ebmlab.app.output import outlast_readers
        from ebmlab.app.quick_answers import answer
        from ebmlab.errors import shown

        outlast_readers()
        given = [word for word in sys.argv[1:] if word != "--debug"]
        with in_one_line(lambda kept: "give the same command again", debug="--debug" in sys.argv):
            if (text := answer(given)) is not None:
                print(shown(text))
                return
            if not launched_rank():
                _say_what_is_loaded()
            os.getcwd()  # raises an error if it has been deleted, where torch would end the process
            from ebmlab.numerics.allocator import keep_freed_memory

            keep_freed_memory()
            with loading():
                from ebmlab.app.cli import load
                from ebmlab.app.cli import main as run
            load(given)
        run(answered=True)
    finally:
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)


def _say_what_is_loaded() -> None:
    from ebmlab import __version__

    print(f"ebmlab {__version__}: loading PyTorch", file=sys.stderr, flush=True)


def _leave(signum: int, frame: FrameType | None) -> None:
    """Ends the process while packages are imported. Some of them would turn an exception into another."""
    name = "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name
    if not launched_rank():  # the first process of a run speaks for all, and may have kept something
        os.write(2, f"stopped by {name}: nothing was kept; give the same command again\n".encode())
    os._exit(128 + signum)


if __name__ == "__main__":
    main()
