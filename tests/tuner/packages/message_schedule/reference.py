import numpy as np


def reference(src, words):
    def turned(x, by):
        return x >> np.uint64(by) | x << np.uint64(64 - by)

    w = list(np.ascontiguousarray(src).view(np.uint64))
    with np.errstate(over="ignore"):
        while len(w) < words:
            a, b = w[-15], w[-2]
            s0 = turned(a, 1) ^ turned(a, 8) ^ a >> np.uint64(7)
            s1 = turned(b, 19) ^ turned(b, 61) ^ b >> np.uint64(6)
            w.append(s1 + w[-7] + s0 + w[-16])
    return np.array(w, np.uint64).view(np.uint32)
