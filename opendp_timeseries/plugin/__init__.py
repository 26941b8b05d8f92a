"""OpenDP's domains, metrics, transformations and measurements, made from designs: the only room that imports OpenDP."""

import os

# Unless it is told not to, OpenDP has Rust trace every error. Where memory ends, Rust runs out of it while it traces,
# reports that by a trace, and waits for itself for ever. Whoever wants to see its frames sets both to 1.
for _name in ("RUST_BACKTRACE", "RUST_LIB_BACKTRACE"):
    os.environ.setdefault(_name, "0")
