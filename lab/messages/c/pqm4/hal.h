/* pqm4 has its board in this; a scheme needs nothing of it.   SPDX-License-Identifier: MIT */
