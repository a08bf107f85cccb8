"""Asks thousands of agents, and says what changed.   SPDX-License-Identifier: MIT"""
