"""The version of the fleet, which is experimental: it may change in every release."""

VERSION = "0.1.0"
