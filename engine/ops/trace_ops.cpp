#include "engine/ops/trace_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>

namespace ft {
namespace {

double bytes_of(std::initializer_list<Tensor> tensors) {
  double sum = 0;
  for (const Tensor& t : tensors)
    if (t) sum += double(t.bytes());
  return sum;
}

template <class T>
bool all_finite(const std::byte* data, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, data + i * std::int64_t{sizeof(T)}, sizeof(T));
    if constexpr (std::is_same_v<T, double>) {
      if (!std::isfinite(value)) return false;
    } else {
      if (!std::isfinite(to_float(value))) return false;
    }
  }
  return true;
}

bool all_finite(DType type, const std::byte* data, std::int64_t n) {
  switch (type) {
    case DType::f64:
      return all_finite<double>(data, n);
    case DType::f32:
      return all_finite<float>(data, n);
    case DType::bf16:
      return all_finite<bf16>(data, n);
    case DType::f16:
      return all_finite<f16>(data, n);
    case DType::i32:
    case DType::u8:
      return true;
  }
  return true;
}

// A JSON string: quotes, backslashes and control characters escaped.
std::string quoted(std::string_view text) {
  std::ostringstream out;
  out << '"';
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out << '\\' << c;
    else if (u < 0x20)
      out << "\\u" << std::hex << std::setw(4) << std::setfill('0') << int{u} << std::dec;
    else
      out << c;
  }
  out << '"';
  return out.str();
}

// One thread of a timeline.
class Timeline {
 public:
  // origin: the time that is 0.
  Timeline(std::ostream& out, int thread, const char* name, double origin)
      : out_(out), thread_(thread), origin_(origin) {
    out_ << "{\"ph\":\"M\",\"pid\":1,\"tid\":" << thread_
         << ",\"name\":\"thread_name\",\"args\":{\"name\":" << quoted(name) << "}}";
  }

  // Calls of one label are shown under one bar with its name.
  void add(std::span<const TraceCall> calls, bool flops) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(3);
    for (std::size_t i = 0; i < calls.size();) {
      std::size_t end = i;
      while (end < calls.size() && calls[end].where == calls[i].where) ++end;
      const double start = calls[i].start, stop = calls[end - 1].start + calls[end - 1].seconds;
      event(text, calls[i].where.empty() ? "(unnamed)" : calls[i].where, "where", start, stop - start);
      text << "}";
      for (; i < end; ++i) {
        const TraceCall& c = calls[i];
        event(text, c.op, "op", c.start, c.seconds);
        text << ",\"args\":{";
        if (flops) text << "\"GFLOP\":" << c.flops * 1e-9 << ",";
        text << "\"MB\":" << c.bytes * 1e-6 << "}}";
      }
    }
    out_ << text.str();
  }

 private:
  void event(std::ostream& text, std::string_view name, const char* kind, double start,
             double seconds) const {
    text << ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":" << thread_ << ",\"cat\":\"" << kind
         << "\",\"name\":" << quoted(name) << ",\"ts\":" << (start - origin_) * 1e6
         << ",\"dur\":" << seconds * 1e6;
  }

  std::ostream& out_;
  int thread_;
  double origin_;
};

}  // namespace

double visible_pairs(const Mask& mask) {
  double pairs = 0;
  for (std::size_t i = 1; i < mask.starts.size(); ++i) {
    const std::int64_t n = mask.starts[i] - mask.starts[i - 1];
    if (!mask.key_starts.empty()) {
      pairs += double(n) * double(mask.key_starts[i] - mask.key_starts[i - 1]);
      continue;
    }
    const std::int64_t w = mask.window > 0 ? std::min(mask.window, n) : n;  // keys up to the query's own
    const std::int64_t past = w * (w + 1) / 2 + (n - w) * w;                // the query's own key included
    const std::int64_t future = n * (n - 1) / 2;
    pairs += double(mask.causal ? past : past + future);
  }
  return pairs;
}

TraceOps::TraceOps(Ops& inner, TraceWhat what) : inner_(inner), what_(what) {}

void TraceOps::enter(std::string_view where) {
  where_ = where;
  inner_.enter(where);
}

void TraceOps::clear() {
  totals_.clear();
  calls_.clear();
  not_finite_.reset();
}

template <class Call>
void TraceOps::note(const char* op, double flops, double bytes, std::initializer_list<Output> outputs,
                    Call call) {
  if (!noting_) return call();
  const double start = steady_seconds();
  call();
  inner_.synchronize();
  const double seconds = steady_seconds() - start;
  TraceTotal& total = totals_[op];
  total.op = op;
  total.calls += 1;
  total.seconds += seconds;
  total.flops += flops;
  total.bytes += bytes;
  if (what_.calls) calls_.push_back({op, where_, start, seconds, flops, bytes});
  if (!what_.finite || not_finite_) return;
  for (const Output& output : outputs)
    if (output.tensor && !not_finite_) look(op, output);
}

void TraceOps::look(const char* op, const Output& output) {
  const Tensor& t = output.tensor;
  const std::int64_t step = t.dense() ? std::max<std::int64_t>(t.rows(), 1) : 1;
  for (std::int64_t row = 0; row < t.rows(); row += step) {
    const Tensor part = t.slice(row, row + step);
    host_.resize(std::size_t(part.bytes()));
    inner_.download(host_.data(), part);
    if (all_finite(t.dtype, host_.data(), part.numel())) continue;
    not_finite_ = NotFinite{op, where_, output.role};
    return;
  }
}

std::vector<TraceTotal> TraceOps::totals() const {
  std::vector<TraceTotal> all;
  for (const auto& [op, total] : totals_) all.push_back(total);
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.seconds > b.seconds; });
  return all;
}

double TraceOps::flops() const {
  double sum = 0;
  for (const auto& [op, total] : totals_) sum += total.flops;
  return sum;
}

double TraceOps::seconds() const {
  double sum = 0;
  for (const auto& [op, total] : totals_) sum += total.seconds;
  return sum;
}

void TraceOps::write_table(std::ostream& out) const {
  const double whole = std::max(seconds(), 1e-12);
  std::ostringstream text;
  text << std::fixed << "op                  calls         ms      %   GFLOP/s      GB/s\n";
  for (const TraceTotal& t : totals()) {
    const double time = std::max(t.seconds, 1e-12);
    text << std::left << std::setw(16) << t.op << std::right << std::setw(9) << t.calls
         << std::setprecision(2) << std::setw(11) << t.seconds * 1e3 << std::setprecision(1) << std::setw(7)
         << t.seconds / whole * 100 << std::setw(10) << t.flops / time * 1e-9 << std::setw(10)
         << t.bytes / time * 1e-9 << "\n";
  }
  out << text.str();
}

void TraceOps::write_timeline(std::ostream& out, std::span<const TraceCall> beside) const {
  double origin = steady_seconds();
  for (const std::span<const TraceCall> calls : {std::span<const TraceCall>(calls_), beside})
    if (!calls.empty()) origin = std::min(origin, calls[0].start);
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  Timeline(out, 1, "computation", origin).add(calls_, true);
  if (!beside.empty()) {
    out << ",\n";
    Timeline(out, 2, "communication", origin).add(beside, false);
  }
  out << "\n]}\n";
}

// ---- the calls --------------------------------------------------------------------------------

void TraceOps::copy(Tensor y, Tensor x) {
  note("copy", 0, bytes_of({y, x}), {{"y", y}}, [&] { inner_.copy(y, x); });
}

void TraceOps::upload(Tensor y, const void* host) {
  note("upload", 0, bytes_of({y}), {{"y", y}}, [&] { inner_.upload(y, host); });
}

void TraceOps::download(void* host, Tensor x) {
  note("download", 0, bytes_of({x}), {}, [&] { inner_.download(host, x); });
}

void TraceOps::fill(Tensor y, float value) {
  note("fill", 0, bytes_of({y}), {{"y", y}}, [&] { inner_.fill(y, value); });
}

void TraceOps::add(Tensor y, Tensor x) {
  note("add", 0, bytes_of({y, y, x}), {{"y", y}}, [&] { inner_.add(y, x); });
}

void TraceOps::cast(Tensor y, Tensor x) {
  note("cast", 0, bytes_of({y, x}), {{"y", y}}, [&] { inner_.cast(y, x); });
}

void TraceOps::dropout(Tensor y, Tensor x, float p, Random random) {
  note("dropout", 0, bytes_of({y, x}), {{"y", y}}, [&] { inner_.dropout(y, x, p, random); });
}

void TraceOps::gated(Activation f, Tensor y, Tensor gate, Tensor up) {
  note("gated", 0, bytes_of({y, gate, up}), {{"y", y}}, [&] { inner_.gated(f, y, gate, up); });
}

void TraceOps::gated_grad(Activation f, Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) {
  note("gated_grad", 0, bytes_of({dgate, dup, dy, gate, up}), {{"dgate", dgate}, {"dup", dup}},
       [&] { inner_.gated_grad(f, dgate, dup, dy, gate, up); });
}

void TraceOps::products(Tensor y, std::span<const Term> terms, float alpha, Tensor c) {
  double flops = 0, bytes = bytes_of({y, c});
  for (const Term& t : terms) {
    const std::int64_t k = t.ta == Trans::yes ? t.a.rows() : t.a.cols();
    flops += 2.0 * double(y.rows()) * double(y.cols()) * double(k);
    const FourBitMatrix& q = t.four_bit;
    bytes += bytes_of({t.a, t.b, q.codes, q.absmax, q.nested_absmax});
  }
  note("products", flops, bytes, {{"y", y}}, [&] { inner_.products(y, terms, alpha, c); });
}

void TraceOps::column_sums(Tensor y, Tensor x) {
  note("column_sums", 0, bytes_of({y, y, x}), {{"y", y}}, [&] { inner_.column_sums(y, x); });
}

void TraceOps::rms_norm(Tensor y, Tensor rstd, Tensor x, Tensor w, float eps) {
  note("rms_norm", 0, bytes_of({y, rstd, x, w}), {{"y", y}, {"rstd", rstd}},
       [&] { inner_.rms_norm(y, rstd, x, w, eps); });
}

void TraceOps::rms_norm_grad(Tensor dx, Tensor dw, Tensor dy, Tensor x, Tensor w, Tensor rstd) {
  note("rms_norm_grad", 0, bytes_of({dx, dx, dw, dw, dy, x, w, rstd}), {{"dx", dx}, {"dw", dw}},
       [&] { inner_.rms_norm_grad(dx, dw, dy, x, w, rstd); });
}

void TraceOps::rope(Tensor x, Tensor cos, Tensor sin, Tensor positions, std::int64_t head_width, float sign) {
  note("rope", 0, bytes_of({x, x, positions}), {{"x", x}},
       [&] { inner_.rope(x, cos, sin, positions, head_width, sign); });
}

void TraceOps::attention(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                         const Scores& scores) {
  // q k^T and p v
  const double flops = 4.0 * double(heads.query * heads.width) * visible_pairs(mask);
  note("attention", flops, bytes_of({y, lse, q, k, v}), {{"y", y}, {"lse", lse}},
       [&] { inner_.attention(y, lse, q, k, v, heads, mask, scores); });
}

void TraceOps::attention_grad(Tensor dq, Tensor dk, Tensor dv, Tensor dbias, Tensor dy, Tensor y, Tensor lse,
                              Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                              const Scores& scores) {
  // q k^T again, dy v^T, and the three gradients
  const double flops = 10.0 * double(heads.query * heads.width) * visible_pairs(mask);
  note("attention_grad", flops, bytes_of({dq, dk, dv, dbias, dbias, dy, y, lse, q, k, v}),
       {{"dq", dq}, {"dk", dk}, {"dv", dv}, {"dbias", dbias}},
       [&] { inner_.attention_grad(dq, dk, dv, dbias, dy, y, lse, q, k, v, heads, mask, scores); });
}

// What the rows see is known to the device only: neither work nor bytes of it are counted.
void TraceOps::attention_ranges(Tensor y, Tensor q, Tensor k, Tensor v, Heads heads, const KeyRanges& ranges,
                                const Scores& scores) {
  note("attention_ranges", 0, bytes_of({y, q}), {{"y", y}},
       [&] { inner_.attention_ranges(y, q, k, v, heads, ranges, scores); });
}

void TraceOps::embedding(Tensor y, Tensor ids, Tensor table) {
  note("embedding", 0, bytes_of({y, y, ids}), {{"y", y}}, [&] { inner_.embedding(y, ids, table); });
}

void TraceOps::embedding_grad(Tensor dtable, Tensor ids, Tensor dy) {
  note("embedding_grad", 0, 3 * bytes_of({dy}) + bytes_of({ids}), {{"dtable", dtable}},
       [&] { inner_.embedding_grad(dtable, ids, dy); });
}

void TraceOps::gather_rows(Tensor y, Tensor x, Tensor rows) {
  note("gather_rows", 0, bytes_of({y, y, rows}), {{"y", y}}, [&] { inner_.gather_rows(y, x, rows); });
}

void TraceOps::scatter_rows(Tensor y, Tensor x, Tensor rows) {
  note("scatter_rows", 0, bytes_of({x, x, rows}), {{"y", y}}, [&] { inner_.scatter_rows(y, x, rows); });
}

void TraceOps::cross_entropy(Tensor loss, Tensor logits, Tensor targets, const CrossEntropy& how) {
  const double written = how.gradient ? bytes_of({logits}) : 0;
  note("cross_entropy", 0, bytes_of({loss, logits, targets}) + written,
       {{"loss", loss}, {"logits' gradient", how.gradient ? logits : Tensor{}}},
       [&] { inner_.cross_entropy(loss, logits, targets, how); });
}

void TraceOps::sum(Tensor y, Tensor x) {
  note("sum", 0, bytes_of({y, x}), {{"y", y}}, [&] { inner_.sum(y, x); });
}

void TraceOps::sum_squares(Tensor y, Tensor x) {
  note("sum_squares", 0, bytes_of({y, x}), {{"y", y}}, [&] { inner_.sum_squares(y, x); });
}

void TraceOps::adamw(Tensor master, Tensor m, Tensor v, Tensor grad, const AdamW& how) {
  note("adamw", 0, bytes_of({master, master, m, m, v, v, grad}), {{"master", master}, {"m", m}, {"v", v}},
       [&] { inner_.adamw(master, m, v, grad, how); });
}

void TraceOps::sgd(Tensor master, Tensor grad, float lr, float decay, float grad_scale) {
  note("sgd", 0, bytes_of({master, master, grad}), {{"master", master}},
       [&] { inner_.sgd(master, grad, lr, decay, grad_scale); });
}

}  // namespace ft
