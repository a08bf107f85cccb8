"""Tells people, once.   SPDX-License-Identifier: MIT"""
