"""The form of the bytes that Halide 21's ``serialize_pipeline`` writes, as tables.

Facts from the schema that Halide 21.0.0 is built with (``src/halide_ir.fbs``): a field's place in a
table is its number there, and a union takes two, its kind and its value. Tables of what no upload
may contain are left out: statements, loads and vectors exist in lowered code only.
"""

from __future__ import annotations

from dataclasses import dataclass

SERIALIZATION_VERSION = "18.0.1"
"""Halide's own number for this form; its reader refuses any other."""

SCALARS = {
    "bool": "<B",
    "uint8": "<B",
    "int32": "<i",
    "int64": "<q",
    "uint64": "<Q",
    "float64": "<d",
}

ENUMS = {
    name: tuple(members.split())
    for name, members in {
        "ForType": "serial parallel vectorized unrolled extern gpu_block gpu_thread gpu_lane",
        "Partition": "auto never always",
        "DeviceAPI": "none host default_gpu cuda opencl metal hexagon hexagon_dma d3d12compute"
        " vulkan webgpu",
        "MemoryType": "auto heap stack register gpu_shared gpu_texture locked_cache vtcm amx_tile",
        "CallType": "Image Extern ExternCPlusPlus PureExtern Halide Intrinsic PureIntrinsic",
        "TypeCode": "int uint float handle bfloat",
        "DimType": "pure_var pure_rvar impure_rvar",
        "NameMangling": "default c cplusplus",
    }.items()
}
"""Members in the order of their numbers; each is one byte."""

_BINARY = "Add Sub Mul Div Mod Min Max EQ NE LT LE GT GE And Or"
_EXPRESSIONS = (
    f"none IntImm UIntImm FloatImm StringImm Cast Reinterpret {_BINARY} Not Select Load Ramp "
    "Broadcast Let Call Variable Shuffle VectorReduce UndefinedExpr"
)
UNIONS = {"Expr": tuple(_EXPRESSIONS.split())}

_TABLES = {
    "UndefinedExpr": "",
    "IntImm": "value int64, type Type",
    "UIntImm": "value uint64, type Type",
    "FloatImm": "value float64, type Type",
    "StringImm": "value string",
    "Cast": "value Expr, type Type",
    "Reinterpret": "value Expr, type Type",
    **dict.fromkeys(_BINARY.split(), "a Expr, b Expr"),
    "Not": "a Expr",
    "Select": "condition Expr, true_value Expr, false_value Expr",
    "Let": "name string, value Expr, body Expr",
    "Call": "name string, args [Expr], call_type CallType, func_index int32, value_index int32,"
    " image_name string, param_name string, type Type",
    "Variable": "name string, type Type, param_name string, image_name string,"
    " reduction_domain ReductionDomain",
    "ReductionDomain": "defined bool, domain? [ReductionVariable], predicate? Expr, frozen bool",
    "ReductionVariable": "var string, min Expr, extent Expr",
    "Type": "code TypeCode, bits uint8, lanes int32",
    "Bound": "var string, min Expr, extent Expr, modulus Expr, remainder Expr",
    "StorageDim": "var string, alignment Expr, bound Expr, fold_factor Expr, fold_forward bool",
    "LoopLevel": "func_name string, stage_index int32, var_name string, is_rvar bool, locked bool",
    "FuncSchedule": "store_level LoopLevel, compute_level LoopLevel, hoist_storage_level LoopLevel,"
    " storage_dims [StorageDim], bounds [Bound], estimates [Bound], wrappers [any],"
    " memory_type MemoryType, memoized bool, async bool, ring_buffer Expr,"
    " memoize_eviction_key Expr",
    "Dim": "var string, for_type ForType, device_api DeviceAPI, dim_type DimType,"
    " partition_policy Partition",
    "FuseLoopLevel": "fuse_level LoopLevel, align_dimension_names [string],"
    " align_strategies [uint8]",
    "StageSchedule": "rvars [ReductionVariable], splits [any], dims [Dim], prefetches [any],"
    " fuse_level FuseLoopLevel, fused_pairs [any], touched bool, allow_race_conditions bool,"
    " atomic bool, override_atomic_associativity_test bool",
    "Definition": "is_init bool, predicate Expr, values [Expr], args [Expr],"
    " stage_schedule StageSchedule, specializations [any], source_location string",
    "BufferConstraint": "min Expr, extent Expr, stride Expr, min_estimate Expr,"
    " extent_estimate Expr",
    "Parameter": "defined bool, is_buffer bool, type Type, dimensions int32, name string,"
    " host_alignment int32, buffer_constraints? [BufferConstraint], memory_type MemoryType,"
    " scalar_data uint64, scalar_default? Expr, scalar_min? Expr, scalar_max? Expr,"
    " scalar_estimate? Expr",
    "ExternalParameter": "is_buffer bool, type Type, dimensions int32, name string",
    "BufferDimension": "min int32, extent int32, stride int32",
    "Buffer": "defined bool, name string, type Type, dimensions int32, dims [BufferDimension],"
    " data [uint8]",
    "Func": "name string, origin_name string, output_types [Type], required_types [Type],"
    " required_dims int32, args [string], func_schedule FuncSchedule, init_def Definition,"
    " updates [Definition], debug_file string, output_buffers_names [string],"
    " extern_arguments [any], extern_function_name string, extern_mangling NameMangling,"
    " extern_function_device_api DeviceAPI, extern_proxy_expr Expr, trace_loads bool,"
    " trace_stores bool, trace_realizations bool, trace_tags [string], no_profiling bool,"
    " frozen bool",
    "Pipeline": "funcs [Func], output_names [string], requirements [Stmt],"
    " func_names_in_order [string], parameters [Parameter],"
    " external_parameters [ExternalParameter], buffers [Buffer], halide_version string,"
    " serialization_version string",
}
"""Name and type of each field, in order; with ``?`` those that may be absent. ``[any]`` is a vector
of tables that are counted and not read: none is accepted."""


@dataclass(frozen=True)
class Field:
    """A field: the ``number`` of its place (of the value, for a union), and what is there."""

    name: str
    number: int
    type: str
    is_vector: bool
    is_required: bool


def _fields(text: str) -> tuple[Field, ...]:
    fields, number = [], 0
    for part in filter(None, text.split(", ")):
        name, kind = part.split()
        inner = kind.strip("[]")
        is_union = inner in UNIONS or inner == "Stmt"
        place = number + is_union
        fields.append(Field(name.rstrip("?"), place, inner, inner != kind, name[-1] != "?"))
        number = place + 1
    return tuple(fields)


TABLES = {name: _fields(text) for name, text in _TABLES.items()}
