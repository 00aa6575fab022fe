# Toolchain file: freestanding Hexagon programs with the clang and lld of the ziglang wheel.
#
#   cmake --toolchain "$(hvxtune tool where cmake)/hexagon-zig.cmake" ...
#
# For those who have no Hexagon SDK. HVXTUNE_ZIG is the zig program, by default the one on the PATH
# or of the Python package; HVXTUNE_TARGET the target (HvxTuneTarget.cmake), of which the arch counts.

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR hexagon)

if(NOT HVXTUNE_ZIG)
    # The hint: installed, this is tuner/shipped/cmake, beside ziglang.
    find_program(HVXTUNE_ZIG zig HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../ziglang")
endif()
if(NOT HVXTUNE_ZIG)
    execute_process(
        COMMAND python3 -c "import os, ziglang; print(os.path.dirname(ziglang.__file__) + '/zig')"
        OUTPUT_VARIABLE HVXTUNE_ZIG OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT HVXTUNE_ZIG)
    message(FATAL_ERROR "no zig is found: pip install ziglang, or configure with -DHVXTUNE_ZIG=...")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/HvxTuneTarget.cmake")

# CMake would find out by linking a program, for which zig would first build a libc.
foreach(language C CXX)
    set(CMAKE_${language}_COMPILER_ID Clang)
    set(CMAKE_${language}_COMPILER_ID_RUN TRUE)
    set(CMAKE_${language}_COMPILER_FORCED TRUE)
    set(CMAKE_${language}_FLAGS_INIT
        "-target hexagon-linux-musl -mcpu=hexagon${HVXTUNE_ARCH_NAME} -ffreestanding \
-fno-stack-protector -fno-sanitize=undefined -ffunction-sections -fdata-sections")
    # lld itself: the driver would look for a libc.
    set(CMAKE_${language}_LINK_EXECUTABLE
        "\"${HVXTUNE_ZIG}\" ld.lld -static --gc-sections -z max-page-size=65536 <LINK_FLAGS> \
<OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
    # And its own archiver: the machine's may be missing, or not know Hexagon.
    set(CMAKE_${language}_ARCHIVE_CREATE "\"${HVXTUNE_ZIG}\" ar qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
    set(CMAKE_${language}_ARCHIVE_APPEND "\"${HVXTUNE_ZIG}\" ar qD <TARGET> <LINK_FLAGS> <OBJECTS>")
    set(CMAKE_${language}_ARCHIVE_FINISH "\"${HVXTUNE_ZIG}\" ar sD <TARGET>")
endforeach()
set(CMAKE_C_COMPILER "${HVXTUNE_ZIG}" cc)
set(CMAKE_CXX_COMPILER "${HVXTUNE_ZIG}" c++)
string(APPEND CMAKE_CXX_FLAGS_INIT " -fno-exceptions -fno-rtti -fno-threadsafe-statics")
