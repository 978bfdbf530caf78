"""Wires: how a policy's server is spoken to, one module each, with its codec beside it."""
