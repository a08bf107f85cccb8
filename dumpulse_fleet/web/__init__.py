"""The wall, the JSON interface, and what Prometheus reads.   SPDX-License-Identifier: MIT"""
