# find_package(HvxTune): hvxtune_schedule(), hvxtune_network() and hvxtune_simulated_program().
#
#   cmake -DHvxTune_DIR="$(hvxtune tool where cmake)" ...

include("${CMAKE_CURRENT_LIST_DIR}/HvxTune.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/HvxTuneSimulator.cmake")
