#pragma once
#include "Halide.h"

// sum / 2^bits, rounded.
Halide::Expr rounded(Halide::Expr sum, int bits);
