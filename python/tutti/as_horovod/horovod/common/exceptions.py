# SPDX-License-Identifier: Apache-2.0
"""Passed on from tutti.torch.exceptions."""

from tutti.torch.exceptions import (HorovodInternalError,  # noqa: F401
                                    HorovodVersionMismatchError, HostsUpdatedInterrupt)
