# Sets HVXTUNE_TARGET, what code is made for, unless it is set: as for commands, to the environment
# variable of that name, else to what `hvxtune setup --target` chose. Then sets HVXTUNE_ARCH_NAME, its
# arch, and HVXTUNE_VTCM_BYTES, its VTCM. Included by the other files here, more than once.
#
# Where the command is missing, as on a machine that links a bundle, the default is hexagon-v66, and
# programs have the least VTCM that a target has.

find_program(HVXTUNE_EXECUTABLE hvxtune DOC "The hvxtune command; more arguments may follow")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HVXTUNE_TARGET HVXTUNE_EXECUTABLE HVXTUNE_ZIG)

function(_hvxtune_read_target)
    execute_process(COMMAND ${HVXTUNE_EXECUTABLE} targets --json
        OUTPUT_VARIABLE listed ERROR_VARIABLE error RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "hvxtune targets: ${error}")
    endif()
    if(NOT HVXTUNE_TARGET)
        string(JSON HVXTUNE_TARGET GET "${listed}" default)
    endif()
    string(JSON last LENGTH "${listed}" targets)
    math(EXPR last "${last} - 1")
    foreach(at RANGE ${last})
        string(JSON name GET "${listed}" targets ${at} name)
        list(APPEND names "${name}")
        if(name MATCHES "^(hexagon-)?${HVXTUNE_TARGET}$")
            string(JSON arch GET "${listed}" targets ${at} arch)
            string(JSON vtcm GET "${listed}" targets ${at} vtcm_bytes)
            _hvxtune_keep_target("${name}" ${arch} ${vtcm})
            return()
        endif()
    endforeach()
    list(JOIN names ", " names)
    message(FATAL_ERROR "HVXTUNE_TARGET is '${HVXTUNE_TARGET}'; accepted: ${names}")
endfunction()

function(_hvxtune_keep_target name arch vtcm)
    set(HVXTUNE_TARGET "${name}" CACHE STRING "What code is made for, as --target takes it" FORCE)
    set(HVXTUNE_ARCH_NAME "${arch}" CACHE INTERNAL "The arch of the target")
    set(HVXTUNE_VTCM_BYTES "${vtcm}" CACHE INTERNAL "The VTCM of the target")
    set(_HVXTUNE_TARGET_READ "${name}" CACHE INTERNAL "The target that these two are of")
endfunction()

if(NOT HVXTUNE_TARGET)
    set(HVXTUNE_TARGET "$ENV{HVXTUNE_TARGET}")
endif()
if(HVXTUNE_TARGET AND "${_HVXTUNE_TARGET_READ}" STREQUAL "${HVXTUNE_TARGET}")
    # read by an earlier run
elseif(HVXTUNE_EXECUTABLE)
    _hvxtune_read_target()
elseif(HVXTUNE_TARGET MATCHES "^(hexagon-)?(v[0-9]+)")
    _hvxtune_keep_target("${HVXTUNE_TARGET}" "${CMAKE_MATCH_2}" 262144)
else()
    _hvxtune_keep_target(hexagon-v66 v66 262144)
endif()
set(HVXTUNE_TARGET "${_HVXTUNE_TARGET_READ}")
