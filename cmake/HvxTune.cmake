# hvxtune_schedule(): the best schedule of a kernel as a library to link.
# hvxtune_network(): a network with its weights as one.
#
#   find_package(HvxTune REQUIRED)   # with -DHvxTune_DIR="$(hvxtune tool where cmake)"
#   hvxtune_schedule(TARGET gemm KERNEL gemm_u8 PARAMS m=256 n=256 k=256 CONTRACT static)
#   target_link_libraries(app PRIVATE gemm)
#
# makes the library gemm at configure time, with object and headers that `hvxtune fetch` puts into
# the build folder. The program includes "gemm.h" and calls gemm(). Options:
#
#   TARGET_ARCH  what the code is made for                   default ${HVXTUNE_TARGET}, which by
#                itself is the target that commands mean (HvxTuneTarget.cmake)
#   CONTRACT     what the program promises of its buffers    default static
#   CACHE        warm or cold                                default warm
#   PREFER       robust or fastest                           default robust
#   SERVER       the service to ask                          default ${HVXTUNE_SERVER}, then the
#                environment variable HVXTUNE_SERVER, then the database of this machine
#   FROM         a file of schedules to take in place of a service: what `hvxtune db export` or
#                GET /v1/networks/NETWORK/bundle wrote
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
#   hvxtune_network(TARGET model MODEL mobilenet_v2.onnx)
#   target_link_libraries(app PRIVATE hvxtune::model)
#
# adds the bundle that `hvxtune fetch --network` makes (docs/networks.md) when it configures: the
# program includes "model.h" and calls model_run(). hvxtune_add_network() is another name for it.
# It takes TARGET_ARCH, SERVER, FROM and LOCK, and AXES, the extents of dynamic axes: AXES batch=1.
#
# Builds link what the lock file pins, until a configure run with -DHVXTUNE_UPDATE=ON. With
# -DHVXTUNE_OFFLINE=ON no service is asked: lock file and cache must do. A changed lock file configures
# again. Configuring fails if the contract does not hold, or the pin is for another shape, model or target,
# or what is made of it is not what was pinned.

include_guard(GLOBAL)

include("${CMAKE_CURRENT_LIST_DIR}/HvxTuneTarget.cmake")
set(HVXTUNE_SERVER "" CACHE STRING "The service to ask for schedules")
option(HVXTUNE_OFFLINE "Take schedules from lock file and cache only" OFF)
option(HVXTUNE_UPDATE "Pin the best schedules there are now, this once" OFF)
if(HVXTUNE_UPDATE) # once: what is pinned by this run holds for those that follow
    cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}"
        CALL set HVXTUNE_UPDATE OFF CACHE BOOL "Pin the best schedules there are now, this once" FORCE)
endif()

function(hvxtune_schedule)
    cmake_parse_arguments(
        PARSE_ARGV 0 arg "SCHEDULE" "TARGET;KERNEL;CONTRACT;TARGET_ARCH;CACHE;PREFER;SERVER;FROM;LOCK"
        "PARAMS;SOURCES")
    _hvxtune_require(hvxtune_schedule TARGET KERNEL)
    set(name "${arg_TARGET}")
    _hvxtune_default(arg_CONTRACT static)
    _hvxtune_default(arg_CACHE warm)
    _hvxtune_default(arg_PREFER robust)

    set(folder "${CMAKE_CURRENT_BINARY_DIR}/hvxtune/${name}")
    set(options "${arg_KERNEL}" --contract "${arg_CONTRACT}" --cache "${arg_CACHE}"
        --prefer "${arg_PREFER}" --output "${folder}")
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
    _hvxtune_fetch(hvxtune_schedule ${options})
    string(JSON object GET "${fetched}" files object)
    string(JSON schedule GET "${fetched}" schedule)
    string(JSON contract GET "${fetched}" contract)
    message(STATUS "hvxtune: ${name} is schedule ${schedule}, contract ${contract}")

    set(levels none host stride extent static)
    list(FIND levels "${arg_CONTRACT}" promised)
    add_library(${name} INTERFACE)
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

function(hvxtune_network)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET;MODEL;TARGET_ARCH;SERVER;FROM;LOCK" "AXES")
    _hvxtune_require(hvxtune_network TARGET MODEL)
    set(name "${arg_TARGET}")
    get_filename_component(model "${arg_MODEL}" ABSOLUTE)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/hvxtune")
    set(options --network "${model}" --output "${folder}")
    foreach(axis IN LISTS arg_AXES)
        list(APPEND options --axis "${axis}")
    endforeach()
    _hvxtune_fetch(hvxtune_network ${options})
    string(JSON bundle GET "${fetched}" bundle)
    message(STATUS "hvxtune: ${name} is bundle ${bundle}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${model}")
    add_subdirectory("${folder}/${name}" "${folder}/${name}.build")
endfunction()

function(hvxtune_add_network)
    hvxtune_network(${ARGV})
endfunction()

# Checks the parsed arguments of `function`, of which those that follow are needed.
function(_hvxtune_require function)
    if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
        message(FATAL_ERROR "${function}: what is meant by "
            "'${arg_UNPARSED_ARGUMENTS}${arg_KEYWORDS_MISSING_VALUES}'?")
    endif()
    foreach(needed IN LISTS ARGN)
        if(NOT arg_${needed})
            message(FATAL_ERROR "${function}: ${needed} is missing")
        endif()
    endforeach()
    if(NOT HVXTUNE_EXECUTABLE)
        message(FATAL_ERROR "${function}(${arg_TARGET}): the hvxtune command is not found; "
            "put it on the PATH, or configure with -DHVXTUNE_EXECUTABLE=...")
    endif()
endfunction()

# Fetches with the options that follow and those that all functions have. Sets `fetched` to the JSON
# answer, in the caller.
function(_hvxtune_fetch function)
    _hvxtune_default(arg_TARGET_ARCH "${HVXTUNE_TARGET}")
    _hvxtune_default(arg_SERVER "${HVXTUNE_SERVER}")
    _hvxtune_default(arg_LOCK "${CMAKE_SOURCE_DIR}/hvxtune.lock")
    get_filename_component(lock "${arg_LOCK}" ABSOLUTE)
    set(options ${ARGN} --name "${name}" --target "${arg_TARGET_ARCH}" --lock "${lock}" --json)
    if(HVXTUNE_OFFLINE)
        list(APPEND options --offline)
    elseif(arg_FROM)
        get_filename_component(from "${arg_FROM}" ABSOLUTE)
        list(APPEND options --from "${from}")
    elseif(arg_SERVER)
        list(APPEND options --server "${arg_SERVER}")
    endif()
    if(HVXTUNE_UPDATE AND NOT HVXTUNE_OFFLINE)
        list(APPEND options --update)
    endif()
    execute_process(
        COMMAND ${HVXTUNE_EXECUTABLE} fetch ${options}
        OUTPUT_VARIABLE answer ERROR_VARIABLE error RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        string(JSON message ERROR_VARIABLE unreadable GET "${error}" error message)
        string(JSON accepted ERROR_VARIABLE unread GET "${error}" error accepted)
        string(JSON next_step ERROR_VARIABLE unread GET "${error}" error next_step)
        if(unreadable)
            message(FATAL_ERROR "${function}(${name}): ${status}: ${error}")
        endif()
        message(FATAL_ERROR "${function}(${name}): ${message}\naccepted: ${accepted}\n${next_step}")
    endif()
    string(JSON notice GET "${answer}" notice)
    if(notice)
        message(WARNING "${function}(${name}): ${notice}")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${lock}")
    set(fetched "${answer}" PARENT_SCOPE)
endfunction()

function(_hvxtune_default variable value)
    if(NOT DEFINED ${variable})
        set(${variable} "${value}" PARENT_SCOPE)
    endif()
endfunction()
