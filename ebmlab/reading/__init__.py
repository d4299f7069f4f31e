"""Samples in files of the user's: tables, arrays and pictures."""
