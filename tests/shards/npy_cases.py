"""npy_cases.py FOLDER: saves arrays of all kinds with NumPy as FOLDER/NUMBER.npy; prints NumPy's reading of each header, one per line:

    MAJOR.MINOR ELEMENT_BYTES STRUCTURED FORTRAN SHAPE HEADER_BYTES DATA_BYTES
"""
import os, sys, warnings
import numpy as np
from numpy.lib import format

warnings.simplefilter("ignore")  # NumPy warns when it writes versions 2.0 and 3.0
dtypes = ["?", "i1", "<u2", ">u2", "<i4", ">i8", "<f2", "<f4", ">f8", "<f16", "<c8", "<c16", "S7", "U5", "V3", "<M8[ns]", "<m8[25s]",
          [("x", "<f4"), ("y", "<i2", (3, 2)), ("in", [("a", "u1"), ("b", ">f8")])],
          [(("a title", "name"), "<i4")], [("it's", "<i4"), ('q"', "u1"), ("back\\slash", "S3")], [("größe", "<f4")],
          np.dtype([("a", "u1"), ("b", "<f8")], align=True), [("field%05d" % i, "<f4") for i in range(2500)]]
shapes = [(), (0,), (5,), (2, 3), (4, 0, 2), (1,) * 30]
cases = [np.zeros(shape, dtype) for dtype in dtypes for shape in shapes] + [np.asfortranarray(np.zeros((3, 4), ">f4"))]
for number, array in enumerate(cases):
    path = os.path.join(sys.argv[1], "%d.npy" % number)
    np.save(path, array)
    with open(path, "rb") as file:
        version = format.read_magic(file)
        shape, fortran, dtype = format._read_array_header(file, version, max_header_size=1 << 20)
        head = file.tell()
    # our reader refuses headers above 65,535 bytes
    print("too long" if head > 65547 else "%d.%d %d %d %d (%s) %d %d" % (*version, dtype.itemsize, dtype.names is not None, fortran,
          ",".join(map(str, shape)), head, os.path.getsize(path) - head))
