"""From an event log to integers: every engine, and nothing of OpenDP."""
