# SPDX-License-Identifier: Apache-2.0
"""Daemons of a cluster on one machine, for tests: all files lie in one folder, ports are their own,
and the `with` block ends them by process id."""
import getpass
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import ranks

START_S = 60  # until a daemon answers; the machine may be busy


def find(program):
    """Daemons are often installed outside of the users' PATH."""
    folders = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin"
    return shutil.which(program, path=folders)


def missing(packages):
    """One line with the missing packages, or None. `packages`: program -> package."""
    names = sorted({package for program, package in packages.items() if find(program) is None})
    return f"install {' '.join(names)}" if names else None


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return ports


class Daemons:
    """Children in the foreground, in a folder that is removed with them."""

    def __init__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tutti-cluster-")
        self.folder = pathlib.Path(self.holder.name)
        self.children = []

    def start(self, name, *command, environment=None):
        log = open(self.folder / f"{name}.out", "wb")
        with log:
            child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                     stdout=log, stderr=subprocess.STDOUT,
                                     env=environment or ranks.clean_environment())
        self.children.append((name, child))

    def story(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}"
                         for path in sorted(self.folder.glob("*.out"))
                         + sorted(self.folder.glob("*.log")))

    def wait(self, what, is_there):
        deadline = time.monotonic() + START_S
        while not is_there():
            ended = [name for name, child in self.children if child.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come up; ended: {ended}\n{self.story()}")
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _, child in reversed(self.children):
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.holder.cleanup()


SLURM_CONF = """
ClusterName=tutti
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
ReturnToService=2
KillWait=2
MailProg=/bin/true
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
NodeName={nodes} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{port0},{port1}] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
"""


class Slurm(Daemons):
    """slurmctld and two slurmd on this host, with a munged of their own. The names of the nodes
    resolve to this host."""
    PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client",
                "munged": "munge"}
    NODES = ("127.0.0.2", "127.0.0.3")

    def __init__(self):
        super().__init__()
        self.folder.chmod(0o755)
        ctld, port0, port1 = free_ports(3)
        (self.folder / "state").mkdir()
        self.conf = self.folder / "slurm.conf"
        self.conf.write_text(SLURM_CONF.format(
            host=socket.gethostname().split(".")[0], user=getpass.getuser(), folder=self.folder,
            ctld_port=ctld, port0=port0, port1=port1, nodes=",".join(self.NODES)))
        self.environment = {**ranks.clean_environment(), "SLURM_CONF": str(self.conf)}
        try:
            self.start_munge()
            self.start("slurmctld", find("slurmctld"), "-D", "-c", "-f", self.conf)
            for node in self.NODES:
                self.start(f"slurmd-{node}", find("slurmd"), "-D", "-N", node, "-f", self.conf)
            self.wait("slurm", self.is_idle)
        except BaseException:
            self.__exit__()
            raise

    def start_munge(self):
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        names = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munge.pid",
                 "log-file": "munge.log", "seed-file": "munge.seed"}
        self.start("munged", find("munged"), "--foreground", "--force", "--num-threads=2",
                   *(f"--{option}={self.folder / name}" for option, name in names.items()))
        self.wait("munge", (self.folder / "munge.socket").exists)

    def is_idle(self):
        answer = self.run("sinfo", "-h", "-N", "-o", "%N %t")
        return answer.stdout.split().count("idle") == len(self.NODES)

    def run(self, program, *words, timeout=ranks.PATIENCE_S, **more):
        return subprocess.run([find(program), *(str(word) for word in words)],
                              env={**self.environment, **more}, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout, check=False)


SSHD_CONF = """
Port {port}
ListenAddress 127.0.0.2
ListenAddress 127.0.0.3
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv none
"""


class Sshd(Daemons):
    """sshd on loopback with keys, port and configuration of its own; `shell` logs in."""
    HOSTS = ("127.0.0.2", "127.0.0.3")  # addresses that the launcher does not take for its own
    PACKAGES = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}

    def __init__(self):
        super().__init__()
        (self.port,) = free_ports(1)
        for name in ("host_key", "user_key"):
            subprocess.run([find("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f",
                            self.folder / name], check=True)
        (self.folder / "known").write_text("".join(
            f"[{host}]:{self.port} {(self.folder / 'host_key.pub').read_text()}"
            for host in self.HOSTS))
        self.conf = self.folder / "sshd_config"
        self.conf.write_text(SSHD_CONF.format(port=self.port, folder=self.folder))
        # A file of its own, not arguments: the command of a remote shell is split at blanks.
        (self.folder / "ssh_config").write_text(
            f"Host *\n  Port {self.port}\n  IdentityFile {self.folder}/user_key\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known\n"
            "  StrictHostKeyChecking yes\n  BatchMode yes\n")
        self.shell = f"ssh -F {self.folder}/ssh_config"
        try:
            # -e: the log goes to the daemon's own output.
            self.start("sshd", find("sshd"), "-D", "-e", "-f", self.conf)
            self.wait("sshd", self.answers)
        except BaseException:
            self.__exit__()
            raise

    def answers(self):
        try:
            with socket.create_connection((self.HOSTS[1], self.port), 1) as link:
                return link.recv(4) == b"SSH-"
        except OSError:
            return False
