# SPDX-License-Identifier: Apache-2.0
"""Started calls as torch futures: one thread waits for them, in the order they were started."""

import queue
import threading

import torch


class Completer:
    """Turns handles into futures. Its thread sleeps in the C library while a call runs, and drives
    it; it ends with the process."""

    def __init__(self):
        self._queue = queue.SimpleQueue()
        self._thread = None
        self._lock = threading.Lock()

    def future(self, wait, devices=None):
        """A future of wait(), called on the thread. An exception becomes the future's."""
        future = torch.futures.Future(devices=devices) if devices else torch.futures.Future()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="tutti-completer",
                                                daemon=True)
                self._thread.start()
        self._queue.put((wait, future))
        return future

    def _run(self):
        while True:
            wait, future = self._queue.get()
            try:
                result = wait()
            except BaseException as problem:  # whatever it is, the future's owner must hear of it
                future.set_exception(problem)
            else:
                future.set_result(result)


completer = Completer()
