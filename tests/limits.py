"""Limits of memory, for a process that ends soon."""

import os
import resource
from pathlib import Path


def limit_memory(megabytes):
    """Let this process have so much more."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
