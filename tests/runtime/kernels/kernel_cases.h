// Every op and type that kernels compute, as entries of small programs.
#pragma once

namespace reprise {

inline constexpr const char* kCaseRegions = R"(
HloModule case
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
mul { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] multiply(a, b) }
put { a = f32[] parameter(0)  ROOT b = f32[] parameter(1) }
addi { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] add(a, b) }
addb { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT r = bf16[] add(a, b) }
addw { a = bf16[] parameter(0)  b = bf16[] parameter(1)  x = f32[] convert(a)  y = f32[] convert(b)  s = f32[] add(x, y)  ROOT r = bf16[] convert(s) }
maxu { a = u8[] parameter(0)  b = u8[] parameter(1)  ROOT r = u8[] maximum(a, b) }
or { a = pred[] parameter(0)  b = pred[] parameter(1)  ROOT r = pred[] or(a, b) }
)";

struct KernelCase {
  const char* name;
  const char* entry;
};

inline constexpr KernelCase kKernelCases[] = {
    {"unary", R"(
  x = f32[5,37] parameter(0)
  abs = f32[5,37] abs(x)
  e = f32[5,37] exponential(x)
  e1 = f32[5,37] exponential-minus-one(x)
  l = f32[5,37] log(abs)
  l1 = f32[5,37] log-plus-one(abs)
  t = f32[5,37] tanh(x)
  g = f32[5,37] logistic(x)
  f = f32[5,37] erf(x)
  s = f32[5,37] sqrt(abs)
  r = f32[5,37] rsqrt(abs)
  c = f32[5,37] cbrt(x)
  sn = f32[5,37] sine(x)
  cs = f32[5,37] cosine(x)
  sg = f32[5,37] sign(x)
  fl = f32[5,37] floor(x)
  ce = f32[5,37] ceil(x)
  ra = f32[5,37] round-nearest-afz(x)
  re = f32[5,37] round-nearest-even(x)
  fi = pred[5,37] is-finite(x)
  no = pred[5,37] not(fi)
  ng = f32[5,37] negate(x)
  ROOT cp = f32[5,37] copy(x))"},
    {"trigonometry", R"(
  x = f32[5,37] parameter(0)
  a = f32[5,37] abs(x)
  tn = f32[5,37] tan(x)
  as = f32[5,37] asin(x)
  ac = f32[5,37] acos(x)
  at = f32[5,37] atan(x)
  sh = f32[5,37] sinh(x)
  ch = f32[5,37] cosh(x)
  ah = f32[5,37] asinh(x)
  ach = f32[5,37] acosh(a)
  ath = f32[5,37] atanh(x)
  d = f64[5,37] convert(x)
  dsh = f64[5,37] sinh(d)
  b = bf16[5,37] convert(x)
  ROOT bsh = bf16[5,37] sinh(b))"},
    {"binary", R"(
  x = f32[4,3,19] parameter(0)
  y = f32[4,3,19] parameter(1)
  add = f32[4,3,19] add(x, y)
  sub = f32[4,3,19] subtract(x, y)
  mul = f32[4,3,19] multiply(x, y)
  div = f32[4,3,19] divide(x, y)
  rem = f32[4,3,19] remainder(x, y)
  max = f32[4,3,19] maximum(x, y)
  min = f32[4,3,19] minimum(x, y)
  abs = f32[4,3,19] abs(x)
  pow = f32[4,3,19] power(abs, y)
  at = f32[4,3,19] atan2(x, y)
  lt = pred[4,3,19] compare(x, y), direction=LT
  ge = pred[4,3,19] compare(x, y), direction=GE
  ne = pred[4,3,19] compare(x, x), direction=NE
  and = pred[4,3,19] and(lt, ge)
  or = pred[4,3,19] or(lt, ge)
  xor = pred[4,3,19] xor(lt, ge)
  sel = f32[4,3,19] select(lt, x, y)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  ROOT cl = f32[4,3,19] clamp(zero, x, one))"},
    {"integers", R"(
  x = s32[31] parameter(0)
  y = s32[31] parameter(1)
  three = s32[] constant(3)
  k = s32[31] broadcast(three), dimensions={}
  add = s32[31] add(x, y)
  mul = s32[31] multiply(x, y)
  div = s32[31] divide(x, k)
  rem = s32[31] remainder(x, k)
  and = s32[31] and(x, k)
  sl = s32[31] shift-left(x, k)
  sr = s32[31] shift-right-arithmetic(x, k)
  f = f32[31] convert(x)
  h = f32[31] multiply(f, f)
  b = s32[31] convert(h)
  p = pred[31] compare(x, y), direction=EQ
  pf = f32[31] convert(p)
  w = s64[31] convert(x)
  d = f64[31] convert(x)
  sum = s32[] constant(0)
  ROOT r = s32[] reduce(add, sum), dimensions={0}, to_apply=addi)"},
    {"views", R"(
  x = f32[6,4,10] parameter(0)
  v = f32[4] parameter(1)
  t = f32[10,6,4] transpose(x), dimensions={2,0,1}
  r = f32[24,10] reshape(x)
  n = f32[24,10] negate(r)
  rt = f32[10,24] transpose(n), dimensions={1,0}
  b = f32[6,4,10] broadcast(v), dimensions={1}
  a = f32[6,4,10] add(x, b)
  rr = f32[3,8,10] reshape(a)
  c = f32[3,8,10] copy(rr)
  s = f32[3,2,5] slice(x), slice={[0:6:2], [1:3], [5:10]}
  rv = f32[6,4,10] reverse(x), dimensions={0,2}
  i = s32[6,4,10] iota(), iota_dimension=2
  fi = f32[6,4,10] convert(i)
  z = f32[] constant(7)
  p = f32[9,4,18] pad(x, z), padding=1_2x0_0x-1_0_1
  cc = f32[6,4,20] concatenate(x, rv), dimensions={2}
  cd = f32[12,4,10] concatenate(x, rv), dimensions={0}
  ROOT ct = f32[6,4,10] copy(x))"},
    {"pieces", R"(
  x = f32[3,40] parameter(0)
  y = f32[3,50] parameter(1)
  z = f32[] constant(7)
  c = f32[3,90] concatenate(x, y), dimensions={1}
  p = f32[3,90] pad(x, z), padding=0_0x20_30
  n = f32[3,90] pad(x, z), padding=0_0x-3_53
  i = f32[3,90] pad(x, z), padding=0_0x5_6_1
  s = f32[3,45] slice(c), slice={[0:3], [30:75]}
  v = f32[3,90] reverse(c), dimensions={1}
  ROOT r = f32[3] reduce(c, z), dimensions={1}, to_apply=add)"},
    {"reduces", R"(
  x = f32[7,5,33] parameter(0)
  q = pred[7,5,33] parameter(1)
  z = f32[] constant(0.5)
  m = f32[] constant(-inf)
  one = f32[] constant(1)
  f = pred[] constant(false)
  r0 = f32[5,33] reduce(x, z), dimensions={0}, to_apply=add
  r1 = f32[7,33] reduce(x, z), dimensions={1}, to_apply=add
  r2 = f32[7,5] reduce(x, z), dimensions={2}, to_apply=add
  r01 = f32[33] reduce(x, z), dimensions={0,1}, to_apply=add
  r02 = f32[5] reduce(x, m), dimensions={0,2}, to_apply=max
  r12 = f32[7] reduce(x, z), dimensions={1,2}, to_apply=add
  r012 = f32[] reduce(x, z), dimensions={0,1,2}, to_apply=add
  rm = f32[7,5] reduce(x, one), dimensions={2}, to_apply=mul
  rq = pred[7,5] reduce(q, f), dimensions={2}, to_apply=or
  t = f32[2,7,5,33] broadcast(x), dimensions={1,2,3}
  few = f32[7,5,33] reduce(t, z), dimensions={0}, to_apply=add
  w = f32[7,5,1] reshape(r2)
  ROOT deg = f32[7,5] reduce(w, z), dimensions={2}, to_apply=add)"},
    {"rounding_reducers", R"(
  x = bf16[7,5,33] parameter(0)
  z = bf16[] constant(0.5)
  r0 = bf16[5,33] reduce(x, z), dimensions={0}, to_apply=addw
  r2 = bf16[7,5] reduce(x, z), dimensions={2}, to_apply=addw
  ROOT w = bf16[7,5,31] reduce-window(x, z), window={size=1x1x3}, to_apply=addw)"},
    {"bits", R"(
  x = f32[6,4] parameter(0)
  b = u8[6,4,4] bitcast-convert(x)
  h = u16[6,4,2] bitcast-convert(x)
  back = f32[6,4] bitcast-convert(h)
  w = u64[3] parameter(1)
  s = s32[3,2] bitcast-convert(w)
  again = s64[3] bitcast-convert(s)
  p8 = f32[6,4] reduce-precision(x), exponent_bits=8, mantissa_bits=7
  p5 = f32[6,4] reduce-precision(x), exponent_bits=5, mantissa_bits=10
  p3 = f32[6,4] reduce-precision(x), exponent_bits=3, mantissa_bits=2
  d = f64[6,4] convert(x)
  pd = f64[6,4] reduce-precision(d), exponent_bits=8, mantissa_bits=23
  ROOT cp = f32[6,4] copy(x))"},
    {"dynamic", R"(
  x = f32[8,12] parameter(0)
  u = f32[3,4] parameter(1)
  i = s32[] parameter(2)
  j = s32[] constant(20)
  ds = f32[3,4] dynamic-slice(x, i, j), dynamic_slice_sizes={3,4}
  du = f32[8,12] dynamic-update-slice(x, u, i, i)
  idx = s32[5,1] parameter(3)
  g = f32[5,12] gather(x, idx), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,12}
  pairs = s32[2,5] parameter(4)
  g2 = f32[5,2,3] gather(x, pairs), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,3}
  up = f32[5,12] parameter(5)
  sa = f32[8,12] scatter(x, idx, up), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  sp = f32[8,12] scatter(x, idx, up), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=put
  v = f32[5] parameter(6)
  flat = f32[96] reshape(x)
  fi = s32[5] reshape(idx)
  s1 = f32[96] scatter(flat, fi, v), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  win = f32[5,2,3] parameter(7)
  ROOT sw = f32[8,12] scatter(x, pairs, win), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, to_apply=add)"},
    {"narrow", R"(
  x = bf16[6,70] parameter(0)
  y = bf16[6,70] parameter(1)
  sum = bf16[6,70] add(x, y)
  e = bf16[6,70] exponential(x)
  z = bf16[] constant(0)
  r1 = bf16[6] reduce(x, z), dimensions={1}, to_apply=addb
  r0 = bf16[70] reduce(x, z), dimensions={0}, to_apply=addb
  f = f32[6,70] convert(x)
  h = f16[6,70] convert(f)
  hh = f16[6,70] multiply(h, h)
  b = bf16[6,70] convert(hh)
  u = u8[6,70] parameter(2)
  zu = u8[] constant(0)
  ru = u8[6] reduce(u, zu), dimensions={1}, to_apply=maxu
  lt = pred[6,70] compare(x, y), direction=LT
  ROOT s = bf16[6,70] select(lt, x, y))"},
    {"windows", R"(
  x = f32[2,9,8,3] parameter(0)
  m = f32[] constant(-inf)
  z = f32[] constant(0)
  mp = f32[2,4,4,3] reduce-window(x, m), window={size=1x3x2x1 stride=1x2x2x1}, to_apply=max
  sp = f32[2,9,8,3] reduce-window(x, z), window={size=1x3x3x1 pad=0_0x1_1x1_1x0_0}, to_apply=add
  ROOT dl = f32[2,17,8,3] reduce-window(x, z), window={size=1x2x1x1 pad=0_0x0_1x0_0x0_0 lhs_dilate=1x2x1x1}, to_apply=add)"},
};

}  // namespace reprise
