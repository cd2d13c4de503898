# SPDX-License-Identifier: Apache-2.0
"""Data loaders that read ahead, under Horovod's names (horovod.data)."""

import atexit
import queue
import threading
import weakref

_END = object()
_EXIT_S = 5.0
_readers = weakref.WeakSet()


class BaseDataLoader:
    """Batches, as `_iterate()` of a derived class yields them."""

    def __len__(self):
        raise NotImplementedError("a data loader must define __len__, the number of its batches")

    def _iterate(self):
        raise NotImplementedError("a data loader must define _iterate, which yields its batches")

    def _process_batch(self, batch):
        """Transform a batch before it is yielded."""
        return batch

    def __iter__(self):
        for batch in self._iterate():
            yield self._process_batch(batch)


class _Reader:
    """A thread that reads one pass, at most `ahead` batches ahead."""

    def __init__(self, batches, ahead):
        self._queue, self._is_closed = queue.Queue(ahead), threading.Event()
        self._thread = threading.Thread(target=self._read, args=(batches,), daemon=True,
                                        name="tutti-data-loader")
        _readers.add(self)
        self._thread.start()

    def _put(self, item):
        while not self._is_closed.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return
            except queue.Full:
                pass

    def _read(self, batches):
        try:
            for batch in batches:
                self._put((batch, None))
                if self._is_closed.is_set():
                    return
        except Exception as problem:  # raised again in the thread that iterates
            self._put((None, problem))
        self._put((_END, None))

    def __iter__(self):
        while True:
            batch, problem = self._queue.get()
            if problem is not None:
                raise problem
            if batch is _END:
                return
            yield batch

    def close(self, timeout=None):
        """Stop reading and wait for the end of the thread, at most `timeout` seconds."""
        self._is_closed.set()
        self._thread.join(timeout)


@atexit.register
def _close_all():
    """A script may end in the middle of a pass. A daemon thread inside torch after Python's exit
    would abort the process, so each ends with the batch that it reads."""
    for reader in list(_readers):
        reader.close(_EXIT_S)


class AsyncDataLoaderMixin:
    """Mixin in front of a BaseDataLoader: a thread reads up to `async_loader_queue_size` batches
    ahead; with 0 there is no thread. An exception in _iterate() is raised in the iterating
    thread."""

    def __init__(self, async_loader_queue_size=64, debug_data_loader=False, *args, **kwargs):
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._reader = None
        super().__init__(*args, **kwargs)

    def close_async_loader(self):
        """End the current pass, if there is one."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def __iter__(self):
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()
            return
        self.close_async_loader()
        reader = self._reader = _Reader(self._iterate(), self.async_loader_queue_size)
        try:
            for batch in reader:
                yield self._process_batch(batch)
        finally:
            reader.close()
