#include "engine/ops/trace_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>

namespace ft {
namespace {

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

// A JSON string, with quotes, backslashes and control characters escaped.
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

// Writes one thread of a timeline.
class Timeline {
 public:
  // origin: the time shown as 0.
  Timeline(std::ostream& out, int thread, const char* name, double origin)
      : out_(out), thread_(thread), origin_(origin) {
    out_ << "{\"ph\":\"M\",\"pid\":1,\"tid\":" << thread_
         << ",\"name\":\"thread_name\",\"args\":{\"name\":" << quoted(name) << "}}";
  }

  // Shows consecutive calls with the same label under one bar with its name.
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

// Marks between two reads: more than a step of a large model has, because marks are read at its end.
constexpr std::int64_t kMarks = 16384, kMarksOfTotals = 64;

}  // namespace

TraceOps::TraceOps(Ops& inner, TraceWhat what)
    : inner_(inner), what_(what), stamps_(inner.stamps(what.calls ? kMarks : kMarksOfTotals)) {}
TraceOps::~TraceOps() = default;

void TraceOps::enter(std::string_view where) {
  note_kept();
  where_ = where;
  inner_.enter(where);
}

void TraceOps::clear() {
  settle();
  gaps_ = 0;
  totals_.clear();
  calls_.clear();
  kept_.clear();
  not_finite_.reset();
}

void TraceOps::note_kept() {
  if (!arena_) return;
  const std::int64_t grown = arena_->mark() - std::exchange(mark_, arena_->mark());
  if (noting_ && grown != 0 && phases().now() == Phase::forward) kept_[std::string(where_)] += grown;
}

template <class Call>
bool TraceOps::note(const char* op, double flops, double bytes, Call call) {
  if (!noting_) return call(), false;
  if (stamps_->room() < 2) settle();
  const std::size_t begin = stamps_->mark();
  call();
  const std::size_t end = stamps_->mark();
  TraceTotal& total = totals_[op];
  total.op = op;
  total.calls += 1;
  total.flops += flops;
  total.bytes += bytes;
  TraceCall noted{op, std::string(where_), phases().now(), 0, 0, flops, bytes};
  pending_.push_back({begin, end, 0, 1, std::move(noted)});
  return true;
}

void TraceOps::share_out(const op::Products& p) {
  const Pending whole = std::move(pending_.back());
  pending_.pop_back();
  double depth = 0, before = 0;
  for (const Term& t : p.terms) depth += static_cast<double>(t.depth());
  for (std::size_t i = 0, next = 0; i < p.terms.size(); i = next) {
    double own = 0;
    while (next < p.terms.size() && p.terms[next].where == p.terms[i].where)
      own += static_cast<double>(p.terms[next++].depth());
    Pending part = whole;
    if (!p.terms[i].where.empty()) part.call.where = p.terms[i].where;
    part.from = before / depth;
    before += own;
    part.to = before / depth;
    for (double* x : {&part.call.flops, &part.call.bytes}) *x *= own / depth;
    pending_.push_back(std::move(part));
  }
}

void TraceOps::settle() {
  const std::vector<double> times = stamps_->take();
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    Pending& p = pending_[i];
    const double begin = times[p.begin], seconds = times[p.end] - begin;
    if (i > 0 && p.from == 0) gaps_ += begin - times[pending_[i - 1].end];
    p.call.start = begin + p.from * seconds;
    p.call.seconds = (p.to - p.from) * seconds;
    totals_[p.call.op].seconds += p.call.seconds;
    if (what_.calls) calls_.push_back(std::move(p.call));
  }
  pending_.clear();
}

void TraceOps::stop() {
  settle();
  noting_ = false;
}

void TraceOps::synchronize() {
  inner_.synchronize();
  settle();
}

const std::vector<TraceCall>& TraceOps::calls() {
  settle();
  return calls_;
}

double TraceOps::gaps() {
  settle();
  return gaps_;
}

void TraceOps::look(const char* op, const char* role, const Tensor& t) {
  if (!what_.finite || not_finite_ || !t) return;
  const std::int64_t step = t.dense() ? std::max<std::int64_t>(t.rows(), 1) : 1;
  for (std::int64_t row = 0; row < t.rows(); row += step) {
    const Tensor part = t.slice(row, row + step);
    host_.resize(std::size_t(part.bytes()));
    inner_.download(host_.data(), part);
    if (all_finite(t.dtype, host_.data(), part.numel())) continue;
    not_finite_ = NotFinite{op, std::string(where_), role};
    return;
  }
}

template <class Op>
void TraceOps::compute(const Op& op) {
  if (!note(Op::kName, op::flops_of(op), op::bytes_of(op), [&] { inner_.run(op); })) return;
  if constexpr (std::is_same_v<Op, op::Products>)
    if (what_.calls) share_out(op);
  op.operands([&]<class Role>(const char* role, const Role& operand) {
    if constexpr (Role::kWritten) look(Op::kName, role, operand);
  });
}

void TraceOps::copy(Tensor y, Tensor x) {
  const double bytes = op::bytes_of(y) + op::bytes_of(x);
  if (note("copy", 0, bytes, [&] { inner_.copy(y, x); })) look("copy", "y", y);
}

void TraceOps::upload(Tensor y, const void* host) {
  if (note("upload", 0, op::bytes_of(y), [&] { inner_.upload(y, host); })) look("upload", "y", y);
}

void TraceOps::download(void* host, Tensor x) {
  note("download", 0, op::bytes_of(x), [&] { inner_.download(host, x); });
}

std::vector<TraceTotal> TraceOps::totals() {
  settle();
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

double TraceOps::seconds() {
  settle();
  double sum = 0;
  for (const auto& [op, total] : totals_) sum += total.seconds;
  return sum;
}

void TraceOps::write_table(std::ostream& out) {
  const double whole = std::max(seconds() + gaps_, 1e-12);
  std::ostringstream text;
  text << std::fixed << "op                  calls         ms      %   GFLOP/s      GB/s\n";
  for (const TraceTotal& t : totals()) {
    const double time = std::max(t.seconds, 1e-12);
    text << std::left << std::setw(16) << t.op << std::right << std::setw(9) << t.calls
         << std::setprecision(2) << std::setw(11) << t.seconds * 1e3 << std::setprecision(1) << std::setw(7)
         << t.seconds / whole * 100 << std::setw(10) << t.flops / time * 1e-9 << std::setw(10)
         << t.bytes / time * 1e-9 << "\n";
  }
  text << "gaps                    -" << std::setprecision(2) << std::setw(11) << gaps_ * 1e3
       << std::setprecision(1) << std::setw(7) << gaps_ / whole * 100 << "         -         -\n";
  out << text.str();
}

void TraceOps::write_timeline(std::ostream& out, std::span<const TraceCall> beside) {
  settle();
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

}  // namespace ft
