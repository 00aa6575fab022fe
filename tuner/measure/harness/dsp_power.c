/* Asks the DSP for its highest clocks, so that samples do not depend on what ran before.
 *
 * Numbers and layout are those of HAP_power.h of the Hexagon SDK. Enumerations take as many bytes
 * as their values need (the ABI's default), hence the greatest values: they decide the size.
 */
#include <stddef.h>
#include <stdint.h>

#include "dsp.h"

enum request_type { REQUEST_HVX = 2, REQUEST_APPTYPE = 3, REQUEST_DCVS_V2 = 7 };
enum client_class { COMPUTE_CLIENT = 4 };
enum dcvs_option { PERFORMANCE_MODE = 0x10 };
enum corner { CORNER_TURBO = 6, CORNER_MAX = 255 };

struct dcvs_v2 {
    uint8_t dcvs_enable;
    enum dcvs_option dcvs_option;
    uint8_t set_latency;
    uint32_t latency_us;
    uint8_t set_dcvs_params;
    struct {
        enum corner target, min, max;
        uint32_t reserved[3];
    } params;
};

struct power_request {
    enum request_type type;
    union {
        uint64_t largest[32]; /* more than any payload of any SDK so far */
        enum client_class client;
        struct dcvs_v2 dcvs;
        uint8_t hvx_power_up;
    };
};

_Static_assert(sizeof(enum corner) == 1, "enumerations are as short as their values");
_Static_assert(offsetof(struct power_request, largest) == 8, "payloads begin on a doubleword");

/* Not on every system the driver runs on. */
__attribute__((weak)) int HAP_power_set(void *context, struct power_request *request);
__attribute__((weak)) int qurt_hvx_lock(int mode);

enum { HVX_MODE_128_BYTES = 1, SLEEP_LATENCY_US = 40 };

static char client; /* its address names this client to the power manager */

uint32_t dsp_ask_for_clocks(void) {
    uint32_t granted = 0;
    if (HAP_power_set != NULL) {
        struct power_request request = {.type = REQUEST_APPTYPE, .client = COMPUTE_CLIENT};
        HAP_power_set(&client, &request);
        request = (struct power_request){
            .type = REQUEST_DCVS_V2,
            .dcvs = {.dcvs_option = PERFORMANCE_MODE,
                     .set_latency = 1,
                     .latency_us = SLEEP_LATENCY_US,
                     .set_dcvs_params = 1,
                     .params = {CORNER_TURBO, CORNER_TURBO, CORNER_TURBO, {0}}},
        };
        granted |= DSP_CLOCKS_ASKED;
        if (HAP_power_set(&client, &request) == 0)
            granted |= DSP_CLOCKS_GRANTED;
        request = (struct power_request){.type = REQUEST_HVX, .hvx_power_up = 1};
        if (HAP_power_set(&client, &request) == 0)
            granted |= DSP_HVX_GRANTED;
    }
    if (qurt_hvx_lock != NULL)
        qurt_hvx_lock(HVX_MODE_128_BYTES);
    return granted;
}
