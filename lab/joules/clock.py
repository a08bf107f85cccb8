"""The clock that meters and measurements go by. Tests have one that they set forward themselves.
SPDX-License-Identifier: MIT"""

import threading
import time
from collections.abc import Callable


class Clock:
    """The real one."""

    def now(self) -> float:
        """Seconds since some moment; it never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Calls it at this interval in a thread, until what this returns is called."""
        over = threading.Event()

        def loop() -> None:
            while not over.wait(seconds):
                call()

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()

        def stop() -> None:
            over.set()
            thread.join()

        return stop
