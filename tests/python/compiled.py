"""Steps in C, compiled by the host's compiler and loaded into the test."""

import ctypes
import os
import subprocess

import numpy as np

C_TYPES = {np.float32: ctypes.c_float, np.int32: ctypes.c_int32, np.int64: ctypes.c_int64}


class Library:
    """A compiled C file, whose values are NumPy arrays of its memory."""

    def __init__(self, step, prefix="step"):
        path = os.path.abspath(os.path.splitext(step.source)[0] + ".so")
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC",
                        "-o", path, step.source, "-lm"], check=True)
        self.library, self.prefix = ctypes.CDLL(path), prefix

    def call(self, name, *args):
        return getattr(self.library, f"{self.prefix}_{name}")(*args)

    def value(self, name, shape=(), dtype=np.float32):
        function = getattr(self.library, f"{self.prefix}_{name}")
        function.restype = ctypes.POINTER(C_TYPES[dtype])
        return np.ctypeslib.as_array(function(), shape or (1,))
