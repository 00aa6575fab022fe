// The Generator GENERATOR with integers alone: what it computes with floats from no image, such as a
// curve of brightness or a matrix of colours, is an input. Whoever calls it computes that once, and
// passes it: a table where it has dimensions, else a scalar. The schedule is its own.
#include "Halide.h"

using namespace Halide;
using namespace Halide::Internal;

namespace {

// What the definitions of a stage have: floats, elements of images of integers, parameters by their
// names, and other stages in the order of their first calls.
class Definitions : public IRGraphVisitor {
public:
    bool floats = false, images = false;
    std::set<std::string> parameters;
    std::vector<Function> stages;

    explicit Definitions(const Function &stage) {
        stage.accept(this);
    }

private:
    using IRGraphVisitor::visit;

    void include(const Expr &one) override {
        floats = floats || one.type().is_float();
        IRGraphVisitor::include(one);
    }

    void read(const Parameter &from) {
        if (from.defined()) {
            parameters.insert(from.name());
            floats = floats || from.type().is_float();
            images = images || (from.is_buffer() && !from.type().is_float());
        }
    }

    void visit(const Variable *one) override {
        read(one->param);
    }

    void visit(const Call *one) override {
        read(one->param);
        if (one->func.defined()) {
            stages.emplace_back(one->func);
        }
        IRGraphVisitor::visit(one);
    }
};

// Whether a stage is computed with floats, from no image.
bool is_table(const Function &stage) {
    const std::vector<Type> &types = stage.output_types();
    if (types.size() != 1 || !types[0].is_int_or_uint() || types[0].bits() > 32) {
        return false;
    }
    bool floats = false;
    for (const auto &one : find_transitive_calls(stage)) {
        const Definitions definitions(one.second);
        if (definitions.images) {
            return false;
        }
        floats = floats || definitions.floats;
    }
    return floats;
}

// Reads the inputs that tables have become.
class Tables : public IRMutator {
public:
    std::map<std::string, Parameter> inputs;
    std::map<std::string, ImageParam> images;

private:
    using IRMutator::visit;

    Expr visit(const Call *one) override {
        const auto input = inputs.find(one->name);
        if (one->call_type != Call::Halide || input == inputs.end()) {
            return IRMutator::visit(one);
        }
        const Parameter &table = input->second;
        if (table.is_buffer()) {
            return images.at(one->name)(mutate(one->args));
        }
        return Variable::make(table.type(), table.name(), table);
    }
};

class Integers : public AbstractGenerator {
public:
    explicit Integers(const GeneratorContext &context)
        : made_for(context) {
    }

    std::string name() override {
        return own().name();
    }

    GeneratorContext context() const override {
        return made_for;
    }

    void set_generatorparam_value(const std::string &name, const std::string &value) override {
        own().set_generatorparam_value(name, value);
    }

    void set_generatorparam_value(const std::string &name, const LoopLevel &value) override {
        own().set_generatorparam_value(name, value);
    }

    Pipeline build_pipeline() override {
        if (made.defined()) {
            return made;
        }
        made = own().build_pipeline();
        for (const ArgInfo &one : own().arginfos()) {
            names.insert(one.name);
        }
        std::vector<Function> kept;
        for (const Func &output : made.outputs()) {
            find(output.function(), kept);
        }
        std::set<std::string> used;
        for (Function &stage : kept) {
            stage.mutate(&tables);
            used.merge(Definitions(stage).parameters);
        }
        for (const ArgInfo &one : own().arginfos()) {
            const bool output = one.dir == ArgInfoDirection::Output;
            if (output || used.count(input_parameter(one.name).at(0).name())) {
                arguments.insert(output ? arguments.end() : arguments.begin() + inputs++, one);
            }
        }
        return made;
    }

    std::vector<ArgInfo> arginfos() override {
        build_pipeline();
        return arguments;
    }

    std::vector<Parameter> input_parameter(const std::string &name) override {
        for (const auto &one : tables.inputs) {
            if (one.second.name() == name) {
                return {one.second};
            }
        }
        return own().input_parameter(name);
    }

    std::vector<Func> output_func(const std::string &name) override {
        return own().output_func(name);
    }

    void bind_input(const std::string &name, const std::vector<Parameter> &to) override {
        own().bind_input(name, to);
    }

    void bind_input(const std::string &name, const std::vector<Func> &to) override {
        own().bind_input(name, to);
    }

    void bind_input(const std::string &name, const std::vector<Expr> &to) override {
        own().bind_input(name, to);
    }

    bool emit_cpp_stub(const std::string &) override {
        return false;
    }

    bool emit_hlpipe(const std::string &path) override {
        std::map<std::string, Parameter> parameters;
        serialize_pipeline(build_pipeline(), path, parameters);
        return true;
    }

    bool allow_out_of_order_inputs_and_outputs() const override {
        return true;
    }

private:
    const GeneratorContext made_for;
    AbstractGeneratorPtr theirs;
    Pipeline made;
    Tables tables;
    std::set<std::string> names, seen;
    std::vector<ArgInfo> arguments;
    size_t inputs = 0;

    // The Generator itself; not made at once, while the registry is locked.
    AbstractGenerator &own() {
        if (!theirs) {
            theirs = GeneratorRegistry::create("GENERATOR", made_for);
        }
        return *theirs;
    }

    // Finds the stages that remain, and the tables that they read.
    void find(const Function &stage, std::vector<Function> &kept) {
        if (!seen.insert(stage.name()).second) {
            return;
        }
        kept.push_back(stage);
        for (const Function &next : Definitions(stage).stages) {
            if (!is_table(next)) {
                find(next, kept);
            } else if (seen.insert(next.name()).second) {
                const Type type = next.output_types()[0];
                const int rank = next.dimensions();
                const std::string name = named(next.name());
                auto kind = ArgInfoKind::Scalar;
                Parameter input(type, false, 0, name);
                if (rank > 0) {
                    kind = ArgInfoKind::Buffer;
                    const ImageParam image(type, rank, name);
                    tables.images.emplace(next.name(), image);
                    input = image.parameter();
                }
                tables.inputs.emplace(next.name(), input);
                arguments.push_back({name, ArgInfoDirection::Input, kind, {type}, rank});
            }
        }
    }

    // The name of an input in place of a stage: its own, unless Halide gave it one (f7).
    std::string named(const std::string &stage) {
        std::string name = stage.substr(0, stage.find('$'));
        if (name.find_first_not_of("0123456789", 1) == std::string::npos) {
            name = "table";
        }
        const std::string first = name;
        for (int number = 2; !names.insert(name).second; number++) {
            name = first + "_" + std::to_string(number);
        }
        return name;
    }
};

const bool registered = [] {
    GeneratorRegistry::register_factory(
        "GENERATOR_integers", [](const GeneratorContext &context) -> AbstractGeneratorPtr {
            return std::make_unique<Integers>(context);
        });
    return true;
}();

}  // namespace
