"""Polls thousands of agents, and reports changes."""
