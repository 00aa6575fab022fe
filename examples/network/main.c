/* Calls the network of a bundle with made-up elements, and prints what it makes of them. */
#include "model.h"
#include "simulator.h"

static MODEL_INPUT_TYPE input[MODEL_INPUT_ELEMENTS];
static MODEL_OUTPUT_TYPE output[MODEL_OUTPUT_ELEMENTS];
static _Alignas(MODEL_ALIGNMENT_BYTES) uint8_t arena[MODEL_ARENA_BYTES];

int main(void) {
    for (int i = 0; i < MODEL_INPUT_ELEMENTS; i++)
        input[i] = (MODEL_INPUT_TYPE)(7 * i);
    int status = model_run(input, output, arena);
    simulator_print("status ");
    simulator_print_number((uint32_t)status);
    simulator_print(", output");
    for (int i = 0; i < MODEL_OUTPUT_ELEMENTS; i++) {
        simulator_print(" ");
        simulator_print_number(output[i]);
    }
    simulator_print("\n");
    return status;
}
