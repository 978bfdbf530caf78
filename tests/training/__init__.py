"""Tests of how ``tiny`` is made; none needs torch."""
