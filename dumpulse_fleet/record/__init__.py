"""Keeps events on the disk, and the last hours in memory.   SPDX-License-Identifier: MIT"""
