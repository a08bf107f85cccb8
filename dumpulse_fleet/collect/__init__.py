"""Asks the agents, and judges what they say.   SPDX-License-Identifier: MIT"""
