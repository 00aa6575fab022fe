// An unsharp mask as a C++ Generator, scheduled by what `hvxtune fetch --schedule` wrote.
//
// Without HVXTUNE_SCHEDULED it is the algorithm alone: `-e hlpipe` makes what can be tuned.
#include "Halide.h"

#ifdef HVXTUNE_SCHEDULED
#include "unsharp.schedule.h"
#endif

using namespace Halide;

namespace {

class Unsharp : public Generator<Unsharp> {
public:
    Input<Buffer<uint8_t, 2>> image{"image"};
    Output<Buffer<uint8_t, 2>> sharpened{"sharpened"};

    void generate() {
        Var x{"x"}, y{"y"};
        Func padded = BoundaryConditions::repeat_edge(image);
        Func columns{"columns"};
        auto wide = [&](Expr at_y) { return cast<uint16_t>(padded(x, at_y)); };
        columns(x, y) = wide(y - 1) + 2 * wide(y) + wide(y + 1);
        Expr rows = columns(x - 1, y) + 2 * columns(x, y) + columns(x + 1, y);
        Expr here = cast<int16_t>(padded(x, y));
        sharpened(x, y) = saturating_cast<uint8_t>(2 * here - cast<int16_t>((rows + 8) >> 4));
    }

    void schedule() {
#ifdef HVXTUNE_SCHEDULED
        unsharp_promises(image, sharpened);
        unsharp_schedule(get_pipeline(), get_target());
#endif
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(Unsharp, unsharp)
