"""Builds the emulator, its player and the recorder before they are needed. `make` runs this while pip
installs the packages. So this module, and all modules that it imports, must work without these packages."""

import signal
import sys

from kernelblaster.devices.native_build import emulating_player, recorder_executable
from kernelblaster.errors import KernelBlasterError
from kernelblaster.ptx.build import machine_library


def main() -> None:
    """Builds the emulator, its player and the recorder, as far as they are not in the cache. What cannot be
    built now is skipped without a message, since nvcc may come with the packages that are being installed. It
    is then built when it is first needed; an error in that build is shown."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore Ctrl-C
    try:
        for build in (machine_library, emulating_player, recorder_executable):
            build()
    except KernelBlasterError:
        pass
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
