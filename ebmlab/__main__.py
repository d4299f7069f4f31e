"""`python -m ebmlab`."""

from ebmlab.app.cli import main

if __name__ == "__main__":
    main()
