# Compiles a project: for this machine, or with a framework.   SPDX-License-Identifier: MIT
# mypy: ignore-errors
from SCons.Script import Default, DefaultEnvironment

env = DefaultEnvironment()
Default(env.BuildProgram())
