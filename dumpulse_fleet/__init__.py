"""Asks thousands of agents, and says what changed."""
