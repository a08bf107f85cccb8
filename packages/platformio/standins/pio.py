# For tests: PlatformIO, with the list of SPDX licences from PyPI's `packaging`. PlatformIO itself
# would fetch that list from the network.   SPDX-License-Identifier: MIT
# mypy: ignore-errors
import sys

from packaging.licenses._spdx import LICENSES
from platformio.__main__ import main
from platformio.package.manifest.schema import ManifestSchema

known = {"licenses": [{"licenseId": licence["id"]} for licence in LICENSES.values()]}
ManifestSchema.load_spdx_licenses = staticmethod(lambda: known)
sys.exit(main())
