"""Reads and checks the configuration.   SPDX-License-Identifier: MIT"""
