"""Simulated agents: for tests, benches and the demo.   SPDX-License-Identifier: MIT"""
