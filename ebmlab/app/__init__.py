"""The command line, and the files of a run: its folder, its logs and its checkpoints."""
