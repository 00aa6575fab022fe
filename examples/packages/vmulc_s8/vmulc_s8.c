/* y = clamp((a - a_zero) * (b - b_zero) * multiplier / 2^31 / 2^shift + y_zero), each division
   rounded to nearest, halves up. The arguments are those of XNNPACK's micro-kernels. */
#include <hexagon_types.h>
#include <hvx_hexagon_protos.h>
#include <stddef.h>
#include <stdint.h>

struct params {
    int32_t a_zero, b_zero, multiplier, shift, y_zero, least, greatest;
};

enum { BYTES = sizeof(HVX_Vector) };

static inline HVX_Vector words(HVX_Vector product, HVX_Vector multiplier, HVX_Vector half, int shift) {
    HVX_Vector scaled = Q6_Vw_vmpye_VwVuh(product, multiplier);
    scaled = Q6_Vw_vmpyoacc_VwVwVh_s1_rnd_sat_shift(scaled, product, multiplier);
    return Q6_Vw_vasr_VwR(Q6_Vw_vadd_VwVw(scaled, half), shift);
}

struct constants {
    HVX_Vector a_zero, multiplier, half, y_zero, least, greatest;
    int factor, shift;
};

static inline HVX_Vector halfwords(HVX_Vector a, const struct constants *c) {
    HVX_VectorPair product = Q6_Ww_vmpy_VhRh(Q6_Vh_vsub_VhVh(a, c->a_zero), c->factor);
    HVX_Vector odd = words(Q6_V_hi_W(product), c->multiplier, c->half, c->shift);
    HVX_Vector even = words(Q6_V_lo_W(product), c->multiplier, c->half, c->shift);
    return Q6_Vh_vadd_VhVh_sat(Q6_Vh_vsat_VwVw(odd, even), c->y_zero);
}

static inline HVX_Vector bytes(HVX_Vector a, const struct constants *c) {
    HVX_VectorPair wide = Q6_Wh_vsxt_Vb(a);
    HVX_Vector odd = halfwords(Q6_V_hi_W(wide), c), even = halfwords(Q6_V_lo_W(wide), c);
    HVX_Vector y = Q6_Vb_vasr_VhVhR_sat(odd, even, 0);
    return Q6_Vb_vmin_VbVb(Q6_Vb_vmax_VbVb(y, c->least), c->greatest);
}

static int8_t one(int8_t a, int8_t b, const struct params *p) {
    const int32_t product = (a - p->a_zero) * (b - p->b_zero);
    const int32_t half = p->shift ? 1 << (p->shift - 1) : 0;
    int32_t y = (int32_t)(((int64_t)product * p->multiplier + (1 << 30)) >> 31);
    y = ((y + half) >> p->shift) + p->y_zero;
    return (int8_t)(y < p->least ? p->least : y > p->greatest ? p->greatest : y);
}

void qs8_vmulc_minmax_rndnu_ukernel__hvx(size_t batch, const int8_t *a, const int8_t *b, int8_t *y,
                                         const struct params *p) {
    if (batch < BYTES) {
        for (size_t i = 0; i < batch; ++i) y[i] = one(a[i], *b, p);
        return;
    }
    const int factor = *b - p->b_zero;
    const struct constants c = {
        .a_zero = Q6_Vh_vsplat_R(p->a_zero),
        .multiplier = Q6_V_vsplat_R(p->multiplier),
        .half = Q6_V_vsplat_R(p->shift ? 1 << (p->shift - 1) : 0),
        .y_zero = Q6_Vh_vsplat_R(p->y_zero),
        .least = Q6_Vb_vsplat_R(p->least),
        .greatest = Q6_Vb_vsplat_R(p->greatest),
        .factor = (factor & 0xffff) | factor << 16,
        .shift = p->shift,
    };
    size_t i = 0;
#if WHOLE
    if ((((uintptr_t)a | (uintptr_t)y) & (BYTES - 1)) == 0) {
#pragma clang loop unroll_count(UNROLL)
        for (; i + VECTORS * BYTES <= batch; i += VECTORS * BYTES)
#pragma clang loop unroll(full)
            for (int at = 0; at < VECTORS; ++at)
                *(HVX_Vector *)(y + i + at * BYTES) = bytes(*(const HVX_Vector *)(a + i + at * BYTES), &c);
    }
#endif
#pragma clang loop unroll_count(UNROLL)
    for (; i + VECTORS * BYTES <= batch; i += VECTORS * BYTES)
#pragma clang loop unroll(full)
        for (int at = 0; at < VECTORS; ++at)
            *(HVX_UVector *)(y + i + at * BYTES) = bytes(*(const HVX_UVector *)(a + i + at * BYTES), &c);
    /* The last vector ends with the elements, and begins where it may: some are written twice. */
    for (; i < batch; i += BYTES) {
        const size_t from = i + BYTES <= batch ? i : batch - BYTES;
        *(HVX_UVector *)(y + from) = bytes(*(const HVX_UVector *)(a + from), &c);
    }
}
