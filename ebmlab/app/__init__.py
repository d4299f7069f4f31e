"""The command line, and what a run leaves behind: its folder, its loggers, its checkpoints."""
