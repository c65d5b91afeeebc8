"""Keyed random streams, configs, the run record, devices. Imports no other room."""
