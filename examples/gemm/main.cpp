// Multiplies two matrices with the schedule that CMake fetched, and checks every sum.
//
// The shape is the one the schedule promises its callers: it comes from the generated header, so
// a schedule for another shape does not compile here.

#include <stdint.h>

#include "simulator.h"

#define HVXTUNE_BROKEN_PROMISE(text) simulator_fail(text)
#include "gemm.h"

namespace {

namespace promised = hvxtune::gemm_promises;
static_assert(promised::shapes_are_static, "this program knows one shape");

constexpr int32_t k = promised::A_extent[0], m = promised::A_extent[1];
constexpr int32_t n = promised::C_extent[0];
static_assert(promised::B_extent[0] == n && promised::B_extent[1] == k, "A B = C");

alignas(promised::alignment_bytes) uint8_t a[m][k];
alignas(promised::alignment_bytes) uint8_t b[k][n];
alignas(promised::alignment_bytes) uint32_t c[m][n];

// A dense matrix as Halide sees it: dimension 0 is the innermost.
template <typename Element, int32_t rows, int32_t columns>
struct Matrix {
    halide_dimension_t dim[2] = {{0, columns, 1, 0}, {0, rows, columns, 0}};
    halide_buffer_t buffer = {};

    explicit Matrix(Element (&elements)[rows][columns]) {
        buffer.host = reinterpret_cast<uint8_t *>(elements);
        buffer.type.code = 1; // unsigned
        buffer.type.bits = 8 * sizeof(Element);
        buffer.type.lanes = 1;
        buffer.dimensions = 2;
        buffer.dim = dim;
    }
};

// The linear congruential generator of Numerical Recipes: the same bytes everywhere.
uint32_t state = 1;

uint8_t next_byte() {
    state = state * 1664525u + 1013904223u;
    return static_cast<uint8_t>(state >> 24);
}

} // namespace

int main() {
    for (auto &row : a)
        for (auto &element : row)
            element = next_byte();
    for (auto &row : b)
        for (auto &element : row)
            element = next_byte();

    Matrix in_a(a);
    Matrix in_b(b);
    Matrix out_c(c);
    if (gemm(&in_a.buffer, &in_b.buffer, &out_c.buffer) != 0)
        simulator_fail(simulator_halide_message());

    uint32_t wrong = 0, checksum = 0;
    for (int32_t y = 0; y < m; y++)
        for (int32_t x = 0; x < n; x++) {
            uint32_t sum = 0;
            for (int32_t i = 0; i < k; i++)
                sum += a[y][i] * b[i][x];
            wrong += sum != c[y][x];
            checksum = checksum * 31 + c[y][x];
        }
    simulator_print("wrong ");
    simulator_print_number(wrong);
    simulator_print(" of ");
    simulator_print_number(m * n);
    simulator_print(", checksum ");
    simulator_print_number(checksum);
    simulator_print("\n");
    return wrong != 0;
}
