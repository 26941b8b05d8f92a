"""The command line, ``python -m opendp_timeseries``: make a release, check a log, verify a record, keep a ledger."""
