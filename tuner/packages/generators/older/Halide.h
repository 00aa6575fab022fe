// Halide.h for Generators of older Halides, too.
#pragma once
#include_next "Halide.h"

#include <tuple>
#include <type_traits>

// In Halide::Internal before Halide 14, in namespace Halide since.
namespace Halide {
namespace Internal {
using Halide::halving_add;
using Halide::halving_sub;
using Halide::mul_shift_right;
using Halide::rounding_halving_add;
using Halide::rounding_mul_shift_right;
using Halide::rounding_shift_left;
using Halide::rounding_shift_right;
using Halide::saturating_add;
using Halide::saturating_sub;
using Halide::widening_add;
using Halide::widening_mul;
using Halide::widening_shift_left;
using Halide::widening_shift_right;
using Halide::widening_sub;
}  // namespace Internal
}  // namespace Halide

// Before Halide 15 a GeneratorParam.
#define auto_schedule using_autoscheduler()

// prefetch(of, at, offset, strategy) is prefetch(of, at, from, offset, strategy) since Halide 14,
// where `from` is `at`.
namespace OlderHalide {

template<typename... Rest>
constexpr bool has_from() {
    if constexpr (sizeof...(Rest) == 0) {
        return false;
    } else {
        using First = std::tuple_element_t<0, std::tuple<Rest...>>;
        return std::is_convertible_v<First, Halide::VarOrRVar>;
    }
}

template<size_t Place, typename Value, typename... Rest>
Value given(const Value &otherwise, const Rest &...rest) {
    if constexpr (Place < sizeof...(Rest)) {
        return std::get<Place>(std::tie(rest...));
    } else {
        return otherwise;
    }
}

template<typename... Rest>
Halide::VarOrRVar at(const Halide::VarOrRVar &at, const Rest &...) {
    return at;
}

template<typename... Rest>
Halide::VarOrRVar from(const Halide::VarOrRVar &at, const Rest &...rest) {
    return given<has_from<Rest...>() ? 0 : sizeof...(Rest)>(at, rest...);
}

template<typename... Rest>
Halide::Expr offset(const Halide::VarOrRVar &, const Rest &...rest) {
    return given<has_from<Rest...>() ? 1 : 0>(Halide::Expr(1), rest...);
}

template<typename... Rest>
Halide::PrefetchBoundStrategy strategy(const Halide::VarOrRVar &, const Rest &...rest) {
    return given<has_from<Rest...>() ? 2 : 1>(Halide::PrefetchBoundStrategy::GuardWithIf, rest...);
}

}  // namespace OlderHalide

#define prefetch(of, ...)                                                                  \
    prefetch(of, OlderHalide::at(__VA_ARGS__), OlderHalide::from(__VA_ARGS__),             \
             OlderHalide::offset(__VA_ARGS__), OlderHalide::strategy(__VA_ARGS__))
