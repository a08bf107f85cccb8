"""What a fleet consists of, and what is known of it.   SPDX-License-Identifier: MIT"""
