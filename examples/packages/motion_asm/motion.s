{# A template for Jinja: VECTORS, PACKETS and AHEAD are knobs of kernel.toml. -#}
// moved = max(|before - after| - threshold, 0)
// r0 before, r1 stride, r2 after, r3 stride, r4 moved, r5 stride; then threshold, width, height
    .text
    .p2align 5
    .globl motion
    .type motion, @function
motion:
    { r6 = memw(r29+#0) }
    { r7 = memw(r29+#4) }
    { r8 = memw(r29+#8)
      r9 = lsr(r7, #{{ {1: 7, 2: 8, 4: 9, 8: 10}[VECTORS] }}) }
    { r6 = vsplatb(r6) }
    { v31 = vsplat(r6) }
.Lrow:
    { r10 = r0
      r11 = r2
      r12 = r4
      loop0(.Lvectors, r9) }
    .p2align 5
.Lvectors:
{%- if AHEAD %}
    { dcfetch(r10+#{{ AHEAD }}) }
    { dcfetch(r11+#{{ AHEAD }}) }
{%- endif %}
{%- if PACKETS == "single" %}
{%- for at in range(VECTORS) %}
    { v0 = vmem(r10+#{{ at }}) }
    { v1 = vmem(r11+#{{ at }}) }
    { v2.ub = vabsdiff(v0.ub, v1.ub) }
    { v3.ub = vsub(v2.ub, v31.ub):sat }
    { vmem(r12+#{{ at }}) = v3 }
{%- endfor %}
{%- else %}
    { v0 = vmem(r10++#1) }
    { v1 = vmem(r11++#1) }
{%- for at in range(VECTORS) %}
{%- set last = at == VECTORS - 1 %}
    { v2.ub = vabsdiff(v{{ at % 2 * 4 }}.ub, v{{ at % 2 * 4 + 1 }}.ub)
{%- if not last %}
      v{{ (at + 1) % 2 * 4 }} = vmem(r10++#1)
{%- endif %} }
    { v3.ub = vsub(v2.ub, v31.ub):sat
{%- if not last %}
      v{{ (at + 1) % 2 * 4 + 1 }} = vmem(r11++#1)
{%- endif %}
      vmem(r12++#1) = v3.new }
{%- endfor %}
{%- endif %}
{%- if PACKETS == "single" %}
    { r10 = add(r10, #{{ 128 * VECTORS }})
      r11 = add(r11, #{{ 128 * VECTORS }})
      r12 = add(r12, #{{ 128 * VECTORS }}) }:endloop0
{%- else %}
    { nop
      nop }:endloop0
{%- endif %}
    { r0 = add(r0, r1)
      r2 = add(r2, r3)
      r4 = add(r4, r5) }
    { r8 = add(r8, #-1) }
    { p0 = cmp.gt(r8, #0)
      if (p0.new) jump:t .Lrow }
    { jumpr r31 }
    .size motion, .-motion
