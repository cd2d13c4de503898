# SPDX-License-Identifier: Apache-2.0
"""Horovod's launcher is `tutti run`."""


def run(*_, **__):
    """Not provided: jobs are started from the shell."""
    raise NotImplementedError("horovod.run(func) is not provided by Tutti; put the function in a "
                              "script and start it with: tutti run --as-horovod -n N python SCRIPT")
