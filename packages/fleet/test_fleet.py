"""The package of the fleet, as users have it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from packages import project
from packages.debian import make as debian
from packages.python import make
from packages.python.test_python import environment, run

# Imports the libraries that are only loaded when somebody wants them, too.
EVERY_MODULE = """
import apprise, importlib, pkgutil, dumpulse_fleet
for each in pkgutil.walk_packages(dumpulse_fleet.__path__, "dumpulse_fleet."):
    if not each.name.endswith("__main__"):
        importlib.import_module(each.name)
"""


@pytest.fixture(scope="module", name="wheel")
def fixture_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")  # has that of the client, too
    make.build(folder)
    return next(folder.glob("dumpulse_fleet-*.whl"))


@pytest.mark.long
@pytest.mark.parametrize("oldest", [False, True], ids=["newest", "oldest"])
def test_it_works_where_it_is_installed(tmp_path: Path, wheel: Path, oldest: bool) -> None:
    """In an environment of its own, with libraries from the registry: the newest that fit, and the
    oldest."""
    python = environment(tmp_path / "env")
    limits = tmp_path / "limits.txt"
    needs = make.OWN_OF_FLEET["dependencies"] + make.OWN_OF_FLEET["extras"]
    bounds = re.findall('"([a-zA-Z-]+)>=(.*?),', needs)
    assert len(bounds) == 6
    limits.write_text("".join(f"{name}=={bound}\n" for name, bound in bounds) if oldest else "")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--find-links", wheel.parent, "--constraint", limits, f"{wheel}[apprise]")
    run(python, "-m", "pip", "check", "--disable-pip-version-check")
    command = python.with_name("dumpulse-fleet")
    assert run(command, "--version") == \
        f"dumpulse-fleet {project.version('fleet')} (experimental)\n"
    run(python, "-c", EVERY_MODULE)
    example = tmp_path / "env/share/doc/dumpulse-fleet/examples/fleet.toml"
    assert "targets.json': No such file" in run(
        command, "serve", "--config.check", "--config.file", example,
        fails=True)  # the example names a list of targets that each user has


# In a Debian that has booted: the unit starts, reads again, and is started again when it hangs, but
# not with a configuration that is wrong. It reads keys as the page gives them to it, and not
# otherwise.
SCRIPT = r"""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/opt/dumpulse-fleet/bin
set -eux
wait_for() {
    tries=120
    while ! eval "$1"; do tries=$((tries - 1)); [ $tries != 0 ]; sleep 1; done
}
ended() { echo "wrong: exit status $?"; journalctl -u dumpulse-fleet --no-pager -o cat; }
trap ended EXIT
show() { systemctl show --value -p "$1" dumpulse-fleet; }
fetch() { python3 -c 'import sys, urllib.request as u
print(u.urlopen("http://127.0.0.1:9061/" + sys.argv[1]).read().decode())' "$1"; }
ip link set lo up
mkdir -p /opt/dumpulse-fleet /etc/dumpulse
mount --bind /shared/env /opt/dumpulse-fleet
cp /shared/fleet.toml /etc/dumpulse
mkdir /etc/systemd/system/dumpulse-fleet.service.d # an emulated processor may take minutes
printf '[Service]\nTimeoutStartSec=600\n' >/etc/systemd/system/dumpulse-fleet.service.d/start.conf
systemctl enable --now /opt/dumpulse-fleet/lib/systemd/system/dumpulse-fleet.service
wait_for "fetch metrics | grep 'agents{state=\"unreachable\"} 1'"
[ -d /var/lib/private/dumpulse-fleet ]
printf '[[agents]]\naddress = "127.0.0.2"\n' >>/etc/dumpulse/fleet.toml
systemctl reload dumpulse-fleet
wait_for "fetch api/v1/agents | grep '\"total\":2'"
systemctl stop dumpulse-fleet
[ "$(show Result)" = success ]

cp -r /shared/for-the-fleet /tmp
cd /tmp
@commands@
printf '[[agents]]\naddress = "127.0.0.{3,4}"\nname = "pump-{1..2}"\n' >>/etc/dumpulse/fleet.toml
echo 'keys = "/etc/dumpulse-fleet-keys"' >>/etc/dumpulse/fleet.toml
! systemctl start dumpulse-fleet
journalctl -u dumpulse-fleet -o cat | grep 'pump-1-readers.key.*Permission denied'
printf '@drop-in@' >/etc/systemd/system/dumpulse-fleet.service.d/keys.conf
systemctl daemon-reload
systemctl start dumpulse-fleet
wait_for "fetch api/v1/agents | grep '\"total\":4'"

kill -STOP "$(show MainPID)"
wait_for '[ "$(show NRestarts)" = 1 ] && fetch api/v1/agents | grep total..4'
echo 'x = 1' >>/etc/dumpulse/fleet.toml
! systemctl restart dumpulse-fleet
sleep 10
[ "$(show ActiveState) $(show NRestarts) $(show ExecMainStatus)" = "failed 0 2" ]
trap - EXIT
echo "unit: all is well"
"""


@pytest.mark.long
def test_the_unit_works_under_systemd(tmp_path: Path, wheel: Path) -> None:
    python = environment(tmp_path / "env")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--find-links",
        wheel.parent, wheel)
    command = python.with_name("dumpulse-fleet")
    command.write_text(command.read_text().replace(str(python.parent), "/opt/dumpulse-fleet/bin"))
    (tmp_path / "fleet.toml").write_text(
        "[collector]\ngrace = '0'\n[defaults]\nperiod = '1s'\n[[agents]]\naddress = '127.0.0.1'\n")
    for words in ("new pump-1.key pump-2.key",
                  "split pump-1.key pump-2.key --out for-the-fleet --readers"):
        subprocess.run([sys.executable, project.ROOT / "client.py", "key", *words.split()],
                       cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    page = re.sub("^    ", "", (project.ROOT / "dumpulse_fleet" / "README.md").read_text(),
                  flags=re.M)
    (commands,) = re.findall(r"^groupadd (?:.+\n)+", page, re.M)
    (drop_in,) = re.findall(r"^\[Service\]\n(?:\w+=.*\n)+", page, re.M)
    (tmp_path / "script").write_text(
        SCRIPT.replace("@commands@", commands).replace("@drop-in@", drop_in))
    status, said = debian.boot(debian.base("system"), tmp_path)
    assert status == 0 and said.endswith("unit: all is well\n"), said
