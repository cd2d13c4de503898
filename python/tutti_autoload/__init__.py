# SPDX-License-Identifier: Apache-2.0
"""The hook that `import torch` (2.5 or later) calls where Tutti's wheel is installed: it registers
the backend's name, so that init_process_group("tutti") needs no import. Tutti itself is imported
only when a process group uses it: importing torch must neither take longer nor fail because of it.

TORCH_DEVICE_BACKEND_AUTOLOAD=0 switches this off, as it does for all of torch's extensions."""

import os


def _create(*arguments):
    from tutti.torch import backend
    return backend.create(*arguments)


def _env(older):
    def env(url, **options):
        if "RANK" in os.environ or "rank=" in url:
            return older(url, **options)
        from tutti.torch import launchers
        return launchers.env(older)(url, **options)

    env.serves_launchers = True
    return env


def register():
    import torch.distributed as dist
    if not dist.is_available() or "tutti" in dist.Backend.backend_list:
        return
    dist.Backend.register_backend("tutti", _create, devices=["cpu", "cuda"])
    handlers = getattr(dist.rendezvous, "__globals__", {}).get("_rendezvous_handlers", {})
    if "env" in handlers:
        handlers["env"] = _env(handlers["env"])
