// Generators as strangers write them, for an older Halide.
#include "../shared/rounding.h"

using namespace Halide;
using namespace Halide::ConciseCasts;

namespace {

// The output first, scalars between buffers, no GeneratorParam, the schedule inside generate().
class Blend : public Generator<Blend> {
public:
    Output<Buffer<uint8_t, 2>> mixed{"mixed"};
    Input<Buffer<uint8_t, 2>> second{"second"};
    Input<int16_t> second_weight{"second_weight"};
    Input<Buffer<uint8_t, 2>> first{"first"};
    Input<int16_t> first_weight{"first_weight"};
    Input<uint8_t> most{"most"};

    void generate() {
        Var x("x"), y("y");
        Expr sum = Internal::widening_mul(i16(first(x, y)), first_weight) -
                   Internal::widening_mul(i16(second(x, y)), second_weight);
        mixed(x, y) = min(u8_sat(rounded(sum, 12) + 128), most);
        mixed.vectorize(x, natural_vector_size<uint8_t>());
    }
};

// Reads two elements for one, and one before the first; a scalar is not used, and the type of its
// output is open.
class Halved : public Generator<Halved> {
public:
    Input<int16_t> unused{"unused"};
    Input<Buffer<uint8_t, 2>> image{"image"};
    Output<Buffer<>> half{"half", 2};

    void generate() {
        Expr sum = u16(image(2 * x - 1, y)) + 2 * u16(image(2 * x, y)) + u16(image(2 * x + 1, y));
        half(x, y) = cast(half.type(), rounded(sum, 2));
    }

    void schedule() {
        half.vectorize(x, natural_vector_size<uint8_t>()).parallel(y);
    }

private:
    Var x{"x"}, y{"y"};
};

// Its weights lie in blocks of channels.
class Blocks : public Generator<Blocks> {
public:
    Input<Buffer<uint8_t, 2>> image{"image"};
    Input<Buffer<uint8_t, 2>> weights{"weights"};
    Output<Buffer<uint16_t, 2>> weighted{"weighted"};

    void generate() {
        Var c("c"), x("x"), block("block");
        weighted(c, x) = u16(image(c, x)) * weights(c % 16, c / 16);
        weighted.split(c, block, c, 16, TailStrategy::GuardWithIf);
    }
};

// Sums whole blocks of its weights only.
class Whole : public Generator<Whole> {
public:
    Input<Buffer<uint8_t, 2>> image{"image"};
    Input<Buffer<uint8_t, 2>> weights{"weights"};
    Output<Buffer<uint32_t, 2>> sums{"sums"};

    void generate() {
        Var c("c"), x("x");
        RDom k(0, weights.dim(0).extent() / 32 * 32);
        sums(c, x) += u32(image(k, x)) * weights(k, c);
    }
};

// The width of its input is no multiple of its output's.
class Squares : public Generator<Squares> {
public:
    Input<Buffer<uint8_t, 2>> image{"image"};
    Output<Buffer<uint8_t, 2>> squares{"squares"};

    void generate() {
        Var x("x"), y("y");
        squares(x, y) = image(x * x / 64, y);
    }
};

// Its table, its curve and its strength are computed with floats, but from no image.
class Graded : public Generator<Graded> {
public:
    Input<Buffer<uint8_t, 2>> image{"image"};
    Input<Buffer<float, 2>> matrix{"matrix"};
    Input<float> gamma{"gamma"};
    Input<int32_t> white{"white"};
    Output<Buffer<int32_t, 2>> graded{"graded"};

    void generate() {
        Var x("x"), y("y");
        Func rounded_matrix, curve("curve"), strength("strength");
        rounded_matrix(x, y) = cast<int32_t>(matrix(x, y) * 256.0f);
        curve(x) = cast<int16_t>(pow(cast<float>(x) / white, 1.0f / gamma) * 255.0f);
        strength() = u8_sat(gamma * 32);
        Expr curved = i32(curve(i32(image(x, y))));
        Expr even = rounded_matrix(0, 0), odd = rounded_matrix(2, 1);
        graded(x, y) = curved * select(y == 0, even, odd) + odd - strength();
        curve.compute_root();
        rounded_matrix.compute_root();
        graded.vectorize(x, natural_vector_size<uint8_t>());
    }
};

// Of floats.
class Scaled : public Generator<Scaled> {
public:
    Input<Buffer<uint8_t, 2>> image{"image"};
    Input<float> scale{"scale"};
    Output<Buffer<uint8_t, 2>> scaled{"scaled"};

    void generate() {
        Var x("x"), y("y");
        scaled(x, y) = cast<uint8_t>(image(x, y) * scale);
    }
};

class Floats : public Generator<Floats> {
public:
    Input<Buffer<float, 2>> image{"image"};
    Output<Buffer<float, 2>> sums{"sums"};

    void generate() {
        Var x("x"), y("y");
        sums(x, y) = image(x, y) + 1.0f;
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(Blend, blend)
HALIDE_REGISTER_GENERATOR(Halved, halved)
HALIDE_REGISTER_GENERATOR(Blocks, blocks)
HALIDE_REGISTER_GENERATOR(Whole, whole)
HALIDE_REGISTER_GENERATOR(Squares, squares)
HALIDE_REGISTER_GENERATOR(Graded, graded)
HALIDE_REGISTER_GENERATOR(Scaled, scaled)
HALIDE_REGISTER_GENERATOR(Floats, floats)
