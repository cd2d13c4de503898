# SPDX-License-Identifier: Apache-2.0
"""Re-exported from tutti.torch.exceptions."""

from tutti.torch.exceptions import (HorovodInternalError,  # noqa: F401
                                    HorovodVersionMismatchError, HostsUpdatedInterrupt)
