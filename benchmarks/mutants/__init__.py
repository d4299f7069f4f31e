"""Mutation tests of the layers."""
