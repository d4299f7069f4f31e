"""`python -m ebmlab`."""

from ebmlab.cli import main

if __name__ == "__main__":
    main()
