"""`pypto.platform`: what kernels may ask of the chip that they are written for.

`npuarch` is the architecture of the default chip (Atlas A2); kernels branch on it and may set it.
"""

npuarch = "DAV_2201"
