{# A template for Jinja: ROWS and COLUMNS are knobs of kernel.toml. -#}
// dst[y][x] = (src[y][x] + 2 * src[y + 1][x] + src[y + 2][x] + 2) / 4
// r0 src, r1 its stride, r2 dst, r3 its stride, r4 width, r5 height
    .text
    .p2align 5
    .globl blur
    .type blur, @function
blur:
    { r6 = lsr(r4, #7)
      r8 = ##0x02020202 }
    { r6 = lsr(r6, #{{ {1: 0, 2: 1, 4: 2}[COLUMNS] }})
      r7 = #2 }
    { r13 = mpyi(r1, #{{ ROWS }}) }
    { r14 = mpyi(r3, #{{ ROWS }}) }
.Lwalk:
    { r9 = r0
      r10 = r2
      loop0(.Lvectors, r6) }
    .p2align 5
.Lvectors:
    { r11 = add(r9, r1)
      r12 = r10 }
{%- for column in range(COLUMNS) %}
    { v{{ 3 * column }} = vmem(r9+#{{ column }}) }
    { v{{ 3 * column + 1 }} = vmem(r11+#{{ column }}) }
{%- endfor %}
{%- for row in range(ROWS) %}
    { r11 = add(r11, r1) }
{%- for column in range(COLUMNS) %}
{%- set above, at, below = 3 * column + row % 3, 3 * column + (row + 1) % 3, 3 * column + (row + 2) % 3 %}
    { v{{ below }} = vmem(r11+#{{ column }}) }
    { v{{ 13 + 2 * column }}:{{ 12 + 2 * column }}.h = vadd(v{{ above }}.ub, v{{ below }}.ub) }
    { v{{ 13 + 2 * column }}:{{ 12 + 2 * column }}.uh += vmpy(v{{ at }}.ub, r8.ub) }
{%- endfor %}
{%- for column in range(COLUMNS) %}
    { v{{ 20 + column }}.ub = vasr(v{{ 13 + 2 * column }}.h, v{{ 12 + 2 * column }}.h, r7):rnd:sat }
    { vmem(r12+#{{ column }}) = v{{ 20 + column }} }
{%- endfor %}
    { r12 = add(r12, r3) }
{%- endfor %}
    { r9 = add(r9, #{{ 128 * COLUMNS }})
      r10 = add(r10, #{{ 128 * COLUMNS }}) }:endloop0
    { r0 = add(r0, r13)
      r2 = add(r2, r14)
      r5 = add(r5, #-{{ ROWS }}) }
    { p0 = cmp.gt(r5, #0)
      if (p0.new) jump:t .Lwalk }
    { jumpr r31 }
    .size blur, .-blur
