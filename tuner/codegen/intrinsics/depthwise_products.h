/* Products of quads by weights that differ by lane, added to sums. A product of two vectors that adds to a
   sum takes both multipliers (which chips confirm, docs/truth.md); one that does not takes half of them,
   and any unit does the add. */
INLINE V added_product(V sums, V quads, V weights) {
    return SUMS_APART ? HVX(vaddw)(sums, HVX(vrmpybusv)(quads, weights))
                      : HVX(vrmpybusv_acc)(sums, quads, weights);
}
