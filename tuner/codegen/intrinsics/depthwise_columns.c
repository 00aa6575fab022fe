const int width = input_extent_1, height = input_extent_2, out_width = output_extent_1;
const int row_bytes = width * CHANNELS;
struct weights *prepared = scratch(BLOCKS * sizeof(struct weights));
ROLLED for (int block = 0; block < BLOCKS - (SPAN > 1); ++block)
    prepare(prepared + block, weights + channel_of(block), weights_stride_2, weights_stride_1, 1);
if (SPAN > 1)
    prepare(prepared + WHOLE, weights + channel_of(WHOLE), weights_stride_2, weights_stride_1, SPAN);
const int blank_bytes = rounded_up(row_bytes, VECTOR_BYTES);
uint8_t *blanks = scratch(blank_bytes);
ROLLED for (int at = 0; at < blank_bytes; at += VECTOR_BYTES)
    *(V *)(blanks + at) = HVX(lvsplatw)(zero_in * 0x01010101);
int still = 0; /* if LLVM knew it would hold more weights in registers than there are */
if (ROWS > 1) __asm__ volatile("" : "+r"(still));

ROLLED for (int y = 0; y < output_extent_2; y += ROWS) {
    if (STREAMS && STRIDE * y + 2 * QUAD <= height)
        __builtin_HEXAGON_Y5_l2fetch(
            (void *)(input + (STRIDE * y + QUAD) * input_stride_2),
            (uint64_t)VECTOR_BYTES << 32 | (uint64_t)VECTOR_BYTES << 16 | 2 * row_bytes / VECTOR_BYTES);
    struct walk walk = {.with = prepared, .still = still};
    UNROLLED for (int i = 0; i < LINES; ++i) {
        const int row = STRIDE * y + i - 1;
        walk.rows[i] = row >= 0 && row < height ? input + row * input_stride_2 : blanks;
    }
    UNROLLED for (int r = 0; r < ROWS; ++r)
        walk.to[r] = output + at_most(y + r, output_extent_2 - 1) * output_stride_2;
    if (SPAN > 1) walked(walk, WHOLE, width, out_width, SPAN);
    ROLLED for (int block = 0; block < BLOCKS - (SPAN > 1); ++block)
        walked(walk, block, width, out_width, 1);
}
