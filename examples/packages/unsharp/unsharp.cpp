// Unsharp mask: the image and, three quarters again, its distance to a Gaussian of 5x5.
//
// A hand schedule with six GeneratorParams. `width` and `height` are the contract: with them the
// code is for that size alone, dense and aligned.
#include "Halide.h"

using namespace Halide;

namespace {

enum class Place { Inline, Tile, Root };
enum class Tail { ShiftInwards, GuardWithIf };

class Unsharp : public Generator<Unsharp> {
public:
    GeneratorParam<int> vectors{"vectors", 1, 1, 2};
    GeneratorParam<int> tile_rows{"tile_rows", 4, 1, 16};
    GeneratorParam<bool> unroll_rows{"unroll_rows", true};
    GeneratorParam<Place> columns_in{
        "columns_in", Place::Tile, {{"inline", Place::Inline}, {"tile", Place::Tile}, {"root", Place::Root}}};
    GeneratorParam<bool> keep_edges{"keep_edges", true};
    GeneratorParam<Tail> tail{
        "tail", Tail::ShiftInwards, {{"shift", Tail::ShiftInwards}, {"guard", Tail::GuardWithIf}}};

    GeneratorParam<bool> manual{"manual", true};
    GeneratorParam<int> width{"width", 0};
    GeneratorParam<int> height{"height", 0};

    Input<Buffer<uint8_t, 2>> image{"image"};
    Output<Buffer<uint8_t, 2>> sharpened{"sharpened"};

    void generate() {
        padded(x, y) = BoundaryConditions::repeat_edge(image)(x, y);
        auto wide = [&](Expr at_x, Expr at_y) { return cast<uint16_t>(padded(at_x, at_y)); };
        columns(x, y) = wide(x, y - 2) + 4 * wide(x, y - 1) + 6 * wide(x, y) + 4 * wide(x, y + 1) +
                        wide(x, y + 2);
        Expr rows = columns(x - 2, y) + 4 * columns(x - 1, y) + 6 * columns(x, y) +
                    4 * columns(x + 1, y) + columns(x + 2, y);
        Expr blurred = cast<int16_t>((rows + 128) >> 8);
        Expr here = cast<int16_t>(padded(x, y));
        sharpened(x, y) = saturating_cast<uint8_t>(here + ((3 * (here - blurred) + 2) >> 2));
    }

    void schedule() {
        const int vector = natural_vector_size<uint8_t>();
        for (auto *extent : {&width, &height}) {
            if (*extent > 0) {
                const int at = extent == &width ? 0 : 1;
                image.dim(at).set_bounds(0, *extent);
                sharpened.dim(at).set_bounds(0, *extent);
            }
        }
        if (width > 0) {
            image.dim(1).set_stride(width);
            sharpened.dim(1).set_stride(width);
            image.set_host_alignment(vector);
            sharpened.set_host_alignment(vector);
        }
        if (!manual) {
            return;
        }
        const int lanes = vector * vectors;
        const TailStrategy end =
            tail == Tail::ShiftInwards ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf;
        Func output = sharpened;
        output.tile(x, y, xi, yi, lanes, tile_rows, end).vectorize(xi);
        if (unroll_rows) {
            output.unroll(yi);
        }
        if (columns_in == Place::Root) {
            columns.compute_root().vectorize(x, lanes, TailStrategy::RoundUp);
        } else if (columns_in == Place::Tile) {
            columns.compute_at(output, y).store_at(output, y).vectorize(
                x, lanes, TailStrategy::RoundUp);
        }
        if (keep_edges) {
            padded.compute_at(output, y).vectorize(x, vector, TailStrategy::RoundUp);
            padded.align_storage(x, vector);
        }
    }

private:
    Var x{"x"}, y{"y"}, xi{"xi"}, yi{"yi"};
    Func padded{"padded"}, columns{"columns"};
};

}  // namespace

HALIDE_REGISTER_GENERATOR(Unsharp, unsharp)
