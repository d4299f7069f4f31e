"""`python -m ebmlab`. Help, version and misspelt commands are answered before heavy packages are imported."""

import sys

from ebmlab.app.at_once import answer
from ebmlab.errors import UserError


def main() -> None:
    """Answers at once if no command has to run; otherwise runs the command."""
    try:
        text = answer([word for word in sys.argv[1:] if word != "--debug"])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if text is not None:
        print(text)
        return
    from ebmlab.app.cli import main as run

    run()


if __name__ == "__main__":
    main()
