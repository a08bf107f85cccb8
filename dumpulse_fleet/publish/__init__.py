"""Hands states and events on, over MQTT and to NATS.   SPDX-License-Identifier: MIT"""
