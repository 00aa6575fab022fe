// A 3x3 blur, edges repeated. Its GeneratorParams are the knobs.
#include "Halide.h"

using namespace Halide;

namespace {

class Blur : public Generator<Blur> {
public:
    GeneratorParam<int> tile_rows{"tile_rows", 2, 1, 8};
    GeneratorParam<int> vectors{"vectors", 1, 1, 2};
    GeneratorParam<bool> keep_rows{"keep_rows", true};

    // Not searched: kernel.toml says what they are when.
    GeneratorParam<bool> manual{"manual", true};
    GeneratorParam<int> width{"width", 0};
    GeneratorParam<int> height{"height", 0};

    Input<Buffer<uint8_t, 2>> src{"src"};
    Output<Buffer<uint8_t, 2>> dst{"dst"};

    void generate() {
        padded(x, y) = BoundaryConditions::repeat_edge(src)(x, y);
        auto wide = [&](Expr at_y) { return cast<uint16_t>(padded(x, at_y)); };
        rows(x, y) = wide(y - 1) + 2 * wide(y) + wide(y + 1);
        dst(x, y) = cast<uint8_t>((rows(x - 1, y) + 2 * rows(x, y) + rows(x + 1, y) + 8) >> 4);
    }

    void schedule() {
        const int vector = natural_vector_size<uint8_t>();
        if (width > 0) { // the contract static
            src.dim(0).set_bounds(0, width).dim(1).set_bounds(0, height).set_stride(width);
            dst.dim(0).set_bounds(0, width).dim(1).set_bounds(0, height).set_stride(width);
            src.set_host_alignment(vector);
            dst.set_host_alignment(vector);
        }
        if (!manual) {
            return;
        }
        Func output = dst;
        output.tile(x, y, xi, yi, vector * vectors, tile_rows, TailStrategy::ShiftInwards)
            .vectorize(xi)
            .unroll(yi);
        padded.compute_at(output, y).vectorize(x, vector, TailStrategy::RoundUp);
        padded.align_storage(x, vector);
        if (keep_rows) {
            rows.compute_at(output, y).vectorize(x, vector, TailStrategy::RoundUp);
        }
    }

private:
    Var x{"x"}, y{"y"}, xi{"xi"}, yi{"yi"};
    Func padded{"padded"}, rows{"rows"};
};

}  // namespace

HALIDE_REGISTER_GENERATOR(Blur, blur)
