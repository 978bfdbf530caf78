"""Serving a policy of ours on the wires that policies/wires speaks; one module a wire."""
