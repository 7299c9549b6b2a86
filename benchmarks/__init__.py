"""Costs of diffsim, measured against its peers in one run on one machine."""
