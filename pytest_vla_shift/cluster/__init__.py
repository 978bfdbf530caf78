"""Rollouts on a Ray cluster: ``--vla-executor=ray``. Ray is imported only when asked for.

The process that runs pytest keeps the store and decides what runs; what is here is only where it
runs. Rollout actors have a simulator process each, policy actors have the policy, one a GPU.
"""
