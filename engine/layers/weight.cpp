#include "engine/layers/weight.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

// Lists the numbers of ranks, up to 64, that can share an axis of this length.
std::string sizes_that_do(std::int64_t length, const auto& divides) {
  std::string sizes;
  for (int n = 1; n <= std::min<std::int64_t>(length, 64); ++n)
    if (divides(n)) sizes += str(sizes.empty() ? "" : ", ", n);
  return sizes;
}

}  // namespace

void Weight::add_grad(Ctx& c, Tensor dy, Tensor x) {
  const Tensor dw = grad();
  if (!dw || dy.rows() == 0) return;
  const Term term = inputs_first() ? Term{x, Trans::yes, dy, Trans::no} : Term{dy, Trans::yes, x, Trans::no};
  product(c.ops, dw, term, 1, overwrites_grad() ? Tensor{} : dw);
}

FourBitWeight::FourBitWeight(const std::string& name, Shape s, FourBitForm f)
    : form(f), shape(s), whole_form(f), whole(s) {
  const std::int64_t n = shape.numel(), blocks = form.blocks(n);
  const auto part = [](std::string called, std::int64_t size, DType dtype) {
    return Parameter{.name = std::move(called), .shape = {size}, .dtype = dtype, .stands_for = 0};
  };
  codes = part(name, (n + 1) / 2, DType::u8);
  codes.stands_for = n;
  absmax = part(name + ".absmax", blocks, form.nested ? DType::u8 : DType::f32);
  if (!form.nested) return;
  nested_absmax = part(name + ".nested_absmax", (blocks + kNestedBlock - 1) / kNestedBlock, DType::f32);
  nested_offset = part(name + ".nested_offset", 1, DType::f32);
}

Term FourBitWeight::times(Tensor x, Trans t) const {
  return {x,
          Trans::no,
          {},
          t,
          {form, shape, codes.value, absmax.value, nested_absmax.value, nested_offset.value}};
}

bool FourBitWeight::divides(int axis, int size, const Parts& parts) const {
  const std::int64_t step = axis == 0 ? shape[1] : 1, end = shape[axis] * step;
  for (int r = 0; r < size; ++r)
    for (const Portion::Run& run : part_of_axis(shape[axis], step, {r, size}, parts).runs) {
      const bool last = axis == 0 && run.begin + run.count == end;  // the last block may be shorter
      if (run.begin % form.block != 0 || (!last && (run.begin + run.count) % form.block != 0)) return false;
    }
  return true;
}

// Keeps complete blocks only.
void FourBitWeight::cut(int axis, TensorRank t, const Parts& parts) {
  if (!divides(axis, t.size, parts)) {
    refuse_cut(str(t.size, " ranks cannot share ", codes.name, " ", to_string(shape),
                   " at the borders of its blocks of ", form.block,
                   " elements in 4 bits; sizes that would do: ",
                   sizes_that_do(shape[axis], [&](int size) { return divides(axis, size, parts); })));
  }
  const std::int64_t step = axis == 0 ? shape[1] : 1, groups = axis == 0 ? 1 : shape[0];
  const std::int64_t n = shape[axis] * step;
  const AxisPart kept = part_of_axis(shape[axis], step, t, parts);
  shape.dims[axis] = kept.places;
  const auto keep = [&](Parameter& p, std::int64_t each) {
    Portion s{p.shape, ceil_div(n, each)};
    for (const Portion::Run& run : kept.runs) s.runs.push_back({run.begin / each, ceil_div(run.count, each)});
    keep_portion(p, s);
    p.shape = {groups * s.own()};
  };
  keep(codes, 2);
  keep(absmax, form.block);
  if (!form.nested) return;
  form.nested = false;
  absmax.dtype = DType::f32;
  absmax.stored = {};
}

void FourBitWeight::visit(Visitor& v) {
  v.parameter(codes);
  v.parameter(absmax);
  if (!form.nested) return;
  v.parameter(nested_absmax);
  v.parameter(nested_offset);
}

Fp8Weight::Fp8Weight(const std::string& name, Shape s, Fp8Scheme tiles) : scheme(tiles), shape(s), whole(s) {
  const std::int64_t n = shape.numel();
  codes = {.name = name, .shape = {n}, .dtype = DType::u8, .stands_for = n};
  scales = {.name = name + (scheme == kFp8Blocks ? "_scale_inv" : "_scale"),
            .shape = {scheme.scales(shape[0], shape[1])},
            .dtype = DType::f32,
            .stands_for = 0};
}

Term Fp8Weight::times(Tensor x, Trans t) const {
  Term term{x, Trans::no, {}, t};
  term.fp8 = {scheme, shape, codes.value, scales.value};
  term.fp8_rows = rows_in_fp8;
  return term;
}

void Fp8Weight::visit(Visitor& v) {
  v.parameter(codes);
  v.parameter(scales);
}

// Keeps complete tiles only. A scale that all ranks need is kept by each.
void Fp8Weight::cut(int axis, TensorRank t, const Parts& parts) {
  const std::int64_t tile = axis == 0 ? scheme.rows : scheme.cols, end = shape[axis];
  const auto divides = [&](int size) {
    for (int r = 0; r < size && tile > 1; ++r)
      for (const Portion::Run& run : part_of_axis(end, 1, {r, size}, parts).runs) {
        const std::int64_t stop = run.begin + run.count;
        if (run.begin % tile != 0 || (stop != end && stop % tile != 0)) return false;
      }
    return true;
  };
  if (!divides(t.size)) {
    refuse_cut(str(t.size, " ranks cannot share ", codes.name, " ", to_string(shape),
                   " at the borders of its blocks of ", scheme.rows, " x ", scheme.cols,
                   " elements in FP8; sizes that would do: ", sizes_that_do(end, divides)));
  }
  // Keeps the part of an array of (rows, cols) along the axis, in units of `each` of the matrix's places.
  const auto keep = [&](Parameter& p, std::int64_t rows, std::int64_t cols, std::int64_t each) {
    const std::int64_t step = axis == 0 ? cols : 1, groups = axis == 0 ? 1 : rows;
    Portion s{p.shape, axis == 0 ? rows * cols : cols};
    for (const Portion::Run& run : part_of_axis(end, 1, t, parts).runs)
      s.runs.push_back({run.begin / each * step, ceil_div(run.count, each) * step});
    keep_portion(p, s);
    p.shape = {groups * s.own()};
  };
  keep(codes, shape[0], shape[1], 1);
  if (tile > 0) keep(scales, scheme.scale_rows(shape[0]), scheme.scale_cols(shape[1]), tile);
  shape.dims[axis] = part_of_axis(end, 1, t, parts).places;
}

Int8Weight::Int8Weight(const Parameter& dense, bool inputs_first)
    : shape(dense.shape), inputs_first_(inputs_first) {
  const std::int64_t n = shape.numel();
  codes = {.name = dense.name, .shape = {n}, .dtype = DType::u8, .stands_for = n};
  codes.stored_as = dense.stored_as;
  scales = {.name = dense.name + ".scales", .shape = {int8_blocks(n)}, .dtype = DType::f32, .stands_for = 0};
}

Term Int8Weight::times(Tensor x, Trans t) const {
  if (inputs_first_) t = t == Trans::yes ? Trans::no : Trans::yes;
  Term term{x, Trans::no, {}, t};
  term.int8 = {shape, codes.value, scales.value};
  return term;
}

void Int8Weight::visit(Visitor& v) {
  v.parameter(codes);
  v.parameter(scales);
}

void Int8Weight::cut(int, TensorRank, const Parts&) { refuse_cut("weights in 8 bits are not split"); }

}  // namespace ft
