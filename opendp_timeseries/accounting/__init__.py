"""Privacy accounting: pure mathematics, no OpenDP objects, no data. One theorem, one home."""
