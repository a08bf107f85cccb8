"""Writes the bill of materials of a release: what each of its files contains and needs of others.

    build/venv-packages/bin/python -m packages.sbom FOLDER

FOLDER has the files of a release, and gets dumpulse-VERSION.cdx.json: CycloneDX 1.6, as its own
library writes and checks it. The same files give the same bytes."""

import argparse
import hashlib
import importlib.metadata
import re
import subprocess
import uuid
import zipfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output import BaseOutput, make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from packages import archive, making, project
from tools.programs import as_program

# Whose code a linker has put into the images, as link maps show: packages of Debian.
OF_FIRMWARE = {"avr-libc": "BSD-3-Clause",
               "gcc-avr": "GPL-3.0-or-later WITH GCC-exception-3.1"}
SUPPLIERS = {"pypi": OrganizationalEntity(name="PyPI"), "deb": OrganizationalEntity(name="Debian")}


def linked(path: Path) -> Iterator[Component]:
    """What a file contains of others."""
    if "-servers-" in path.name:  # musl and the compiler's own functions
        version = importlib.metadata.version("ziglang")
        yield Component(name="ziglang", version=version, bom_ref=f"{path.name}/ziglang",
                        purl=PackageURL("pypi", None, "ziglang", version),
                        supplier=SUPPLIERS["pypi"], licenses=[LicenseExpression("MIT")])
    for name, licence in OF_FIRMWARE.items() if "-firmware-" in path.name else ():
        version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], text=True,
                                 stdout=subprocess.PIPE, check=True).stdout
        yield Component(name=name, version=version, bom_ref=f"{path.name}/{name}",
                        purl=PackageURL("deb", "debian", name, version),
                        supplier=SUPPLIERS["deb"], licenses=[LicenseExpression(licence)])


def needs(path: Path) -> Iterator[Component]:
    """What a file needs of others where it is installed, as its own fields say."""
    requirements: list[tuple[str, str | None, str, bool]] = []
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
            lines = re.findall("^Requires-Dist: (.*)$", wheel.read(name).decode(), re.M)
        requirements = [("pypi", None, line, "extra ==" in line) for line in lines]
    elif path.suffix == ".deb":
        fields = subprocess.run(["dpkg-deb", "--field", path, "Depends"], text=True,
                                stdout=subprocess.PIPE, check=True).stdout
        requirements = [("deb", "debian", line, False)
                        for line in fields.split(",") if line.strip()]
    for world, group, line, is_optional in requirements:
        name, versions = re.findall(r"^([\w.+-]+)(?::any)? *([^;]*)", line.strip())[0]
        yield Component(name=name, version=versions or "any", bom_ref=f"{path.name}>{name}",
                        purl=PackageURL(world, group, name), supplier=SUPPLIERS[world],
                        scope=ComponentScope.OPTIONAL if is_optional else ComponentScope.REQUIRED)


def bill(folder: Path) -> Bom:
    licence = LicenseExpression(project.LICENSE)
    whole = Component(name=project.NAME, version=project.version(), type=ComponentType.APPLICATION,
                      bom_ref=project.NAME, description=project.SUMMARY, licenses=[licence])
    document = Bom(metadata=BomMetaData(
        component=whole, timestamp=datetime.fromtimestamp(archive.build_time(), timezone.utc)))
    sums, files = hashlib.sha256(), []
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        sums.update(content)
        value = hashlib.sha256(content).hexdigest()
        part = "fleet" if "fleet" in path.name else "library"
        file = Component(name=path.name, version=project.version(part), type=ComponentType.FILE,
                         bom_ref=path.name, licenses=[licence], components=linked(path),
                         hashes=[HashType(alg=HashAlgorithm.SHA_256, content=value)])
        needed = [*needs(path)]
        document.components.update([file, *needed])
        document.register_dependency(file, needed)
        files.append(file)
    document.register_dependency(whole, files)
    document.serial_number = uuid.UUID(bytes=sums.digest()[:16], version=4)
    return document


def write(folder: Path) -> Path:
    out: BaseOutput = make_outputter(bill(folder), OutputFormat.JSON, SchemaVersion.V1_6)
    text = out.output_as_string(indent=1)
    if fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise making.Failed(f"this is no bill of materials: {fault}")
    to = folder / f"{project.NAME}-{project.version()}.cdx.json"
    to.write_text(f"{text}\n")
    return to


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="packages.sbom", description="Writes the bill of materials of a release.")
    parser.add_argument("folder", type=Path, help="it has the files of the release, and gets it")
    try:
        written = write(parser.parse_args().folder)
    except (making.Failed, OSError, subprocess.CalledProcessError) as why:
        raise SystemExit(f"packages.sbom: {why}") from None
    print(written)


if __name__ == "__main__":
    as_program(main, ".*")
