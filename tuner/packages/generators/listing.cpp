// Takes the place of Halide's generate_filter_main in a Generator's program (LD_PRELOAD): writes its
// Generators, their GeneratorParams and arguments to the file "listing", in JSON. Halide 21 prints
// the names of Generators only, and the bounds of numbers nowhere.
#include "Halide.h"

#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>

using namespace Halide;
using namespace Halide::Internal;

namespace {

// An explicit instantiation may name private members ([temp.spec.general]).
template<typename Tag, typename Tag::type Member>
struct Reach {
    friend typename Tag::type reached(Tag) {
        return Member;
    }
};

#define REACHED(TAG, TYPE, MEMBER)          \
    struct TAG {                            \
        using type = TYPE;                  \
        friend type reached(TAG);           \
    };                                      \
    template struct Reach<TAG, &MEMBER>;

using Info = GeneratorParamInfo &(GeneratorBase::*)();
using Text = std::string (GeneratorParamBase::*)() const;
using Flag = bool (GeneratorParamBase::*)() const;
REACHED(ParamInfo, Info, GeneratorBase::param_info)
REACHED(CType, Text, GeneratorParamBase::get_c_type)
REACHED(Declarations, Text, GeneratorParamBase::get_type_decls)
REACHED(Default, Text, GeneratorParamBase::get_default_value)
REACHED(IsSynthetic, Flag, GeneratorParamBase::is_synthetic_param)
REACHED(IsLoopLevel, Flag, GeneratorParamBase::is_looplevel_param)

#define BOUNDS(T)                                                                             \
    REACHED(Least_##T, const T GeneratorParam_Arithmetic<T>::*, GeneratorParam_Arithmetic<T>::min) \
    REACHED(Most_##T, const T GeneratorParam_Arithmetic<T>::*, GeneratorParam_Arithmetic<T>::max)
BOUNDS(int8_t)
BOUNDS(int16_t)
BOUNDS(int32_t)
BOUNDS(int64_t)
BOUNDS(uint8_t)
BOUNDS(uint16_t)
BOUNDS(uint32_t)
BOUNDS(uint64_t)

// The bounds of an integer; empty for anything else. `+` makes a number of a char.
std::string bounds(const GeneratorParamBase *param) {
    std::ostringstream out;
#define BOUNDS_OF(T)                                                                    \
    if (const auto *number = dynamic_cast<const GeneratorParam_Arithmetic<T> *>(param)) { \
        out << ", \"least\": " << +(number->*reached(Least_##T()))                       \
            << ", \"most\": " << +(number->*reached(Most_##T()));                        \
    }
    BOUNDS_OF(int8_t)
    BOUNDS_OF(int16_t)
    BOUNDS_OF(int32_t)
    BOUNDS_OF(int64_t)
    BOUNDS_OF(uint8_t)
    BOUNDS_OF(uint16_t)
    BOUNDS_OF(uint32_t)
    BOUNDS_OF(uint64_t)
    return out.str();
}

std::string quoted(const std::string &text) {
    std::ostringstream out;
    out << '"';
    for (unsigned char c : text) {
        if (c == '"' || c == '\\') {
            out << '\\' << c;
        } else if (c < 0x20) {
            out << "\\u" << std::hex << std::setw(4) << std::setfill('0') << int(c) << std::dec;
        } else {
            out << c;
        }
    }
    out << '"';
    return out.str();
}

void list_params(std::ostream &out, GeneratorBase &generator) {
    const char *between = "";
    for (GeneratorParamBase *param : (generator.*reached(ParamInfo()))().generator_params()) {
        const bool is_ours = param->name() == "target" || param->name() == "autoscheduler";
        if (is_ours || (param->*reached(IsSynthetic()))() || (param->*reached(IsLoopLevel()))()) {
            continue;
        }
        out << between << "{\"name\": " << quoted(param->name())
            << ", \"type\": " << quoted((param->*reached(CType()))())
            << ", \"default\": " << quoted((param->*reached(Default()))())
            << ", \"declarations\": " << quoted((param->*reached(Declarations()))())
            << bounds(param) << "}";
        between = ", ";
    }
}

void list_arguments(std::ostream &out, AbstractGenerator &generator) {
    const char *between = "";
    for (const auto &one : generator.arginfos()) {
        out << between << "{\"name\": " << quoted(one.name)
            << ", \"output\": " << (one.dir == ArgInfoDirection::Output ? "true" : "false")
            << ", \"buffer\": " << (one.kind == ArgInfoKind::Scalar ? "false" : "true")
            << ", \"dimensions\": " << one.dimensions << ", \"types\": [";
        const char *comma = "";
        for (const Type &type : one.types) {
            std::ostringstream text;
            text << type;
            out << comma << quoted(text.str());
            comma = ", ";
        }
        out << "]}";
        between = ", ";
    }
}

}  // namespace

namespace Halide {
namespace Internal {

int generate_filter_main(int, char **) {
    std::ostringstream out;
    const char *between = "";
    out << "[";
    try {
        for (const std::string &name : GeneratorRegistry::enumerate()) {
            const GeneratorContext context(Target("hexagon-32-noos-hvx_128-hvx_v66-no_runtime"));
            const AbstractGeneratorPtr made = GeneratorRegistry::create(name, context);
            // GeneratorParams are those of the one that it goes by (integers.cpp).
            const AbstractGeneratorPtr own = GeneratorRegistry::create(made->name(), context);
            auto *generator = dynamic_cast<GeneratorBase *>(own.get());
            if (generator == nullptr) {
                continue;
            }
            own->arginfos();  // configures it
            out << between << "{\"name\": " << quoted(name) << ", \"arguments\": [";
            list_arguments(out, *made);
            out << "], \"params\": [";
            list_params(out, *generator);
            out << "]}";
            between = ", ";
        }
    } catch (const Error &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
    out << "]\n";
    std::ofstream("listing") << out.str();
    return 0;
}

}  // namespace Internal
}  // namespace Halide
