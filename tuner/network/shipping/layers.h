/* The parts of a network that are not kernels, beside copies: fetches, means of windows. */
#ifndef HVXTUNE_LAYERS_H
#define HVXTUNE_LAYERS_H

#include <stdint.h>

/* Asks for bytes to come to L2 while what follows runs: a box of rows without gaps. */
static inline void hvxtune_fetch(const uint8_t *from, uint32_t bytes) {
#ifdef __hexagon__
    enum { ROW_BYTES = 128, MOST_ROWS = 0xffff };
    uint32_t rows = (bytes + ROW_BYTES - 1) / ROW_BYTES;
    rows = rows < MOST_ROWS ? rows : MOST_ROWS;
    __builtin_HEXAGON_Y5_l2fetch((void *)from, (uint64_t)ROW_BYTES << 32 | ROW_BYTES << 16 | rows);
#else
    (void)from, (void)bytes;
#endif
}

/* One byte in all places. */
static inline void hvxtune_fill(uint8_t *to, uint8_t value, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = value;
}

/* A dense batch of images of bytes, whose channels are first or last. */
struct hvxtune_image {
    int32_t channels, rows, columns;                        /* extents */
    int32_t batch_stride, channel_stride, row_stride, column_stride; /* bytes */
};

/* Means of windows. Elements have the bits in `flip` changed; `scale` is that of a sum, by the
 * number of pixels of its window, or only scale[0] if not `by_count`. Index 0 is of rows. */
struct hvxtune_windows {
    struct hvxtune_image from, to;
    int32_t batch, size[2], stride[2], dilation[2], before[2];
    int32_t flip, from_zero, to_zero, low, high, by_count;
};

static inline void hvxtune_mean_pool(const uint8_t *from, uint8_t *to,
                                     const struct hvxtune_windows *w, const float *scale) {
    const struct hvxtune_image *f = &w->from, *t = &w->to;
    for (int32_t b = 0; b < w->batch; b++)
        for (int32_t c = 0; c < t->channels; c++)
            for (int32_t y = 0; y < t->rows; y++)
                for (int32_t x = 0; x < t->columns; x++) {
                    int32_t sum = 0, count = 0;
                    for (int32_t i = 0; i < w->size[0]; i++) {
                        int32_t row = y * w->stride[0] + i * w->dilation[0] - w->before[0];
                        if (row < 0 || row >= f->rows)
                            continue;
                        for (int32_t j = 0; j < w->size[1]; j++) {
                            int32_t column = x * w->stride[1] + j * w->dilation[1] - w->before[1];
                            if (column < 0 || column >= f->columns)
                                continue;
                            const uint8_t *at = from + b * f->batch_stride + c * f->channel_stride +
                                                row * f->row_stride + column * f->column_stride;
                            sum += (*at ^ w->flip) - w->from_zero;
                            count++;
                        }
                    }
                    float mean = (float)sum * scale[w->by_count ? count : 0];
                    float low = (float)(w->low - w->to_zero), high = (float)(w->high - w->to_zero);
                    mean = mean < low ? low : mean > high ? high : mean;
                    /* 1.5 * 2**23: what is left of a smaller number is rounded, halves to even. */
                    int32_t rounded = (int32_t)(mean + 12582912.0f - 12582912.0f);
                    to[b * t->batch_stride + c * t->channel_stride + y * t->row_stride +
                       x * t->column_stride] = (uint8_t)((rounded + w->to_zero) ^ w->flip);
                }
}

#endif
