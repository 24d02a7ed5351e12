"""The graph language: types, symbolic integers, op records, nodes, and the trace that builds them.

Everything between the front end and the back ends speaks this room's vocabulary.
"""
