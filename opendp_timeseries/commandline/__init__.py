"""The command line, ``python -m opendp_timeseries``: release from a log, check a log in private, verify a record."""
