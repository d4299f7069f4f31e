"""What breaks the command line: bad inputs, mutated configs, kills; run by `make robust`."""
