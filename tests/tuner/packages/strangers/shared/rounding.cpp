#include "rounding.h"

Halide::Expr rounded(Halide::Expr sum, int bits) {
    return (sum + (1 << (bits - 1))) >> bits;
}
