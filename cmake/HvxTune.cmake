# hvxtune_schedule(): the best schedule of a kernel as a library to link.
#
#   include(HvxTune)
#   hvxtune_schedule(TARGET gemm KERNEL gemm_u8 PARAMS m=256 n=256 k=256 CONTRACT static)
#   target_link_libraries(app PRIVATE gemm)
#
# makes the library gemm at configure time, with object and headers that `hvxtune fetch` puts into
# the build folder. The program includes "gemm.h" and calls gemm(). Options:
#
#   TARGET_ARCH  what the code is made for                   default hexagon-v66
#   CONTRACT     what the program promises of its buffers    default static
#   CACHE        warm or cold                                default warm
#   SERVER       the service to ask                          default ${HVXTUNE_SERVER}, then the
#                environment variable HVXTUNE_SERVER, then the database of this machine
#   LOCK         the lock file                               default hvxtune.lock beside the
#                project's top CMakeLists.txt
#   SOURCES      the files that say the algorithm, such as a C++ Generator: the lock file has their
#                digest, and configuring fails once they change until the pin is renewed
#   SCHEDULE     for the program of a Generator itself, which is built for this machine: the library
#                has "gemm.schedule.h" instead of the object
#
# hvxtune_add_schedule() is another name for it. A Generator's build:
#
#   hvxtune_add_schedule(TARGET blur KERNEL pipeline:blur PARAMS x=512 y=64
#                        SOURCES blur_generator.cpp SCHEDULE)
#   add_executable(blur.generator blur_generator.cpp)
#   target_link_libraries(blur.generator PRIVATE blur Halide::Generator)
#
# Builds link what the lock file pins, until a configure run with -DHVXTUNE_UPDATE=ON. With
# -DHVXTUNE_OFFLINE=ON no service is asked: lock file and cache must do. A changed lock file configures
# anew. Configuring fails if the contract does not hold, or the pin is for another shape or target.

include_guard(GLOBAL)

find_program(HVXTUNE_EXECUTABLE hvxtune DOC "The hvxtune command; more arguments may follow")
set(HVXTUNE_SERVER "" CACHE STRING "The service to ask for schedules")
option(HVXTUNE_OFFLINE "Take schedules from lock file and cache only" OFF)
option(HVXTUNE_UPDATE "Pin the best schedules there are now, this once" OFF)
if(HVXTUNE_UPDATE) # once: what is pinned by this run holds for those that follow
    cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}"
        CALL set HVXTUNE_UPDATE OFF CACHE BOOL "Pin the best schedules there are now, this once" FORCE)
endif()

function(hvxtune_schedule)
    cmake_parse_arguments(
        PARSE_ARGV 0 arg "SCHEDULE" "TARGET;KERNEL;CONTRACT;TARGET_ARCH;CACHE;SERVER;LOCK" "PARAMS;SOURCES")
    if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
        message(FATAL_ERROR "hvxtune_schedule: what is meant by "
            "'${arg_UNPARSED_ARGUMENTS}${arg_KEYWORDS_MISSING_VALUES}'?")
    endif()
    foreach(needed TARGET KERNEL)
        if(NOT arg_${needed})
            message(FATAL_ERROR "hvxtune_schedule: ${needed} is missing")
        endif()
    endforeach()
    if(NOT HVXTUNE_EXECUTABLE)
        message(FATAL_ERROR "hvxtune_schedule(${arg_TARGET}): the hvxtune command is not found; "
            "put it on the PATH, or configure with -DHVXTUNE_EXECUTABLE=...")
    endif()
    set(name "${arg_TARGET}")
    _hvxtune_default(arg_TARGET_ARCH hexagon-v66)
    _hvxtune_default(arg_CONTRACT static)
    _hvxtune_default(arg_CACHE warm)
    _hvxtune_default(arg_SERVER "${HVXTUNE_SERVER}")
    _hvxtune_default(arg_LOCK "${CMAKE_SOURCE_DIR}/hvxtune.lock")
    get_filename_component(lock "${arg_LOCK}" ABSOLUTE)

    set(folder "${CMAKE_CURRENT_BINARY_DIR}/hvxtune/${name}")
    set(options --name "${name}" --target "${arg_TARGET_ARCH}" --contract "${arg_CONTRACT}"
        --cache "${arg_CACHE}" --output "${folder}" --lock "${lock}" --json)
    foreach(param IN LISTS arg_PARAMS)
        list(APPEND options --param "${param}")
    endforeach()
    foreach(source IN LISTS arg_SOURCES)
        get_filename_component(source "${source}" ABSOLUTE)
        list(APPEND options --source "${source}")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    endforeach()
    if(arg_SCHEDULE)
        list(APPEND options --schedule)
    endif()
    if(arg_SERVER)
        list(APPEND options --server "${arg_SERVER}")
    endif()
    if(HVXTUNE_OFFLINE)
        list(APPEND options --offline)
    elseif(HVXTUNE_UPDATE)
        list(APPEND options --update)
    endif()
    execute_process(
        COMMAND ${HVXTUNE_EXECUTABLE} fetch "${arg_KERNEL}" ${options}
        OUTPUT_VARIABLE fetched ERROR_VARIABLE error RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        string(JSON message ERROR_VARIABLE unreadable GET "${error}" error message)
        string(JSON next_step ERROR_VARIABLE unread GET "${error}" error next_step)
        if(unreadable)
            message(FATAL_ERROR "hvxtune_schedule(${name}): ${status}: ${error}")
        endif()
        message(FATAL_ERROR "hvxtune_schedule(${name}): ${message}\n${next_step}")
    endif()
    string(JSON object GET "${fetched}" files object)
    string(JSON schedule GET "${fetched}" schedule)
    string(JSON notice GET "${fetched}" notice)
    string(JSON contract GET "${fetched}" contract)
    if(notice)
        message(WARNING "hvxtune_schedule(${name}): ${notice}")
    endif()
    message(STATUS "hvxtune: ${name} is schedule ${schedule}, contract ${contract}")

    set(levels none host stride extent static)
    list(FIND levels "${arg_CONTRACT}" promised)
    add_library(${name} INTERFACE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${lock}")
    if(arg_SCHEDULE)
        target_include_directories(${name} SYSTEM INTERFACE "${folder}")
        return()
    endif()
    target_link_libraries(${name} INTERFACE "${object}")
    target_include_directories(${name} SYSTEM INTERFACE "${folder}")
    target_compile_definitions(${name} INTERFACE HVXTUNE_${name}_PROMISED_LEVEL=${promised})
    set_property(TARGET ${name} PROPERTY INTERFACE_LINK_DEPENDS "${object}")
endfunction()

function(hvxtune_add_schedule)
    hvxtune_schedule(${ARGV})
endfunction()

function(_hvxtune_default variable value)
    if(NOT DEFINED ${variable})
        set(${variable} "${value}" PARENT_SCOPE)
    endif()
endfunction()
