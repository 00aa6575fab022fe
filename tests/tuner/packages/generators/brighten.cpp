#include "Halide.h"

#include <cstdio>
#include <cstdlib>

using namespace Halide;

namespace {

// One stage, and ways to misbehave.
class Brighten : public Generator<Brighten> {
public:
    GeneratorParam<int> vectors{"vectors", 2, 1, 4};
    GeneratorParam<int> unbounded{"unbounded", 3};
    GeneratorParam<float> strength{"strength", 1.5f};
    GeneratorParam<std::string> fault{"fault", "none"};

    Input<Buffer<uint8_t, 2>> image{"image"};
    Input<uint8_t> gain{"gain"};
    Output<Buffer<uint8_t, 2>> bright{"bright"};

    void generate() {
        if (fault.value() == "abort") {
            abort();
        }
        if (fault.value() == "read" && fopen("/etc/hostname", "r") == nullptr) {
            _halide_user_assert(false) << "no such file for me";
        }
        if (fault.value() == "endless") {
            for (;;) {
            }
        }
        bright(x, y) = saturating_add(image(x, y), gain);
    }

    void schedule() {
        bright.vectorize(x, natural_vector_size<uint8_t>() * vectors);
    }

private:
    Var x{"x"}, y{"y"};
};

}  // namespace

HALIDE_REGISTER_GENERATOR(Brighten, brighten)
