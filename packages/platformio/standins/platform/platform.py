# For tests: a platform for PlatformIO that needs no download.   SPDX-License-Identifier: MIT
# mypy: ignore-errors
from platformio.public import PlatformBase


class StandinPlatform(PlatformBase):
    def configure_default_packages(self, variables, targets):
        """It has no packages: the compilers are Debian's."""
