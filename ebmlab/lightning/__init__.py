"""Repairs of Lightning and uses of its private names, each with its reason. No other room has any."""
