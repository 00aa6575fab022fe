# hvxtune_simulated_program(): a program for qemu-hexagon that needs no SDK and no libc.
#
#   hvxtune_simulated_program(app main.cpp)
#
# adds what stands in for Hexagon's system and Halide's runtime: start code, memory (with as much
# VTCM as HVXTUNE_TARGET has), error functions, text on standard output (simulator.h). On a device
# these come from the SDK.

include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/HvxTuneTarget.cmake")

set(_hvxtune_simulator "${CMAKE_CURRENT_LIST_DIR}/simulator")
set(_hvxtune_harness "${CMAKE_CURRENT_LIST_DIR}/../tuner/measure/harness")
if(NOT EXISTS "${_hvxtune_harness}") # installed: this is tuner/shipped/cmake
    set(_hvxtune_harness "${CMAKE_CURRENT_LIST_DIR}/../../measure/harness")
endif()

function(hvxtune_simulated_program name)
    if(NOT TARGET hvxtune_simulator)
        add_library(hvxtune_simulator OBJECT
            "${_hvxtune_simulator}/start.c"
            "${_hvxtune_harness}/memory.c"
            "${_hvxtune_harness}/arithmetic.c"
            "${_hvxtune_harness}/halide_runtime.c")
        # Silent where candidates are measured; start.c has one that prints.
        set_source_files_properties("${_hvxtune_harness}/halide_runtime.c"
            PROPERTIES COMPILE_DEFINITIONS halide_print=halide_print_silently)
        target_include_directories(hvxtune_simulator
            PUBLIC "${_hvxtune_simulator}" PRIVATE "${_hvxtune_harness}")
        target_compile_definitions(hvxtune_simulator
            PRIVATE "HVXTUNE_VTCM_BYTES=${HVXTUNE_VTCM_BYTES}")
        # Without it clang would make memcpy's loop a call of memcpy.
        target_compile_options(hvxtune_simulator PRIVATE -O2 -fno-builtin)
    endif()
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE hvxtune_simulator)
endfunction()
