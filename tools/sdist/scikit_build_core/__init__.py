"""A stand-in for the build backend that source archives name: see build.py."""
