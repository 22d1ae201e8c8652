"""Waits until this is the only ./dev at work in the folder. usage: lock.py DESCRIPTOR

The lock belongs to the open file behind the descriptor, which the calling shell and all that it starts inherit: it
lasts until the last of them has ended, however they end.
"""
import fcntl
import os
import sys


def main() -> None:
    descriptor = int(sys.argv[1])
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 100, 0).decode(errors="replace").strip()
        print(f"    another ./dev is at work in this folder{' (' + holder + ')' if holder else ''}: waiting for it",
              flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return  # a file system without locks
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getppid()}\n".encode(), 0)


if __name__ == "__main__":
    main()
