#include "lora/starts/starts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/files/convert.h"
#include "lora/dora.h"
#include "lora/starts/decompose.h"

namespace ft::lora {
namespace {

Tensor host(std::vector<float>& values) {
  return {
      reinterpret_cast<std::byte*>(values.data()), DType::f32, {static_cast<std::int64_t>(values.size())}};
}

std::string weight_of(const Attached& a, std::size_t i) { return a.linears[i] + ".weight"; }

std::int64_t inputs_of(const LinearAdapter& l) { return l.weight_shape()[1]; }
std::int64_t outputs_of(const LinearAdapter& l) { return l.weight_shape()[0]; }

// Returns W with the values that the model computes with.
std::vector<float> weight_in_use(const WeightsBelow& below, const Attached& attached, std::size_t i) {
  const std::string name = weight_of(attached, i);
  std::vector<float> values;
  if (const FourBitWeight* four_bit = below.weights ? below.weights->find(name) : nullptr)
    values = below.weights->dense(below.base, *four_bit);
  else if (const Fp8Weight* fp8 = below.fp8 ? below.fp8->find(name) : nullptr)
    values = below.fp8->dense(below.base, *fp8);
  else
    values = read_whole(below.base, attached, i);
  if (below.dtype == DType::f32) return values;
  const auto elements = static_cast<std::int64_t>(values.size());
  std::vector<std::uint16_t> rounded(values.size());
  convert(rounded.data(), below.dtype, values.data(), DType::f32, elements);
  convert(values.data(), DType::f32, rounded.data(), below.dtype, elements);
  return values;
}

// Returns A (r, in), from the right vectors, and B (out, r), from the left ones, each times the roots of
// values / by.
Factors balanced(const Singular& s, double by) {
  const std::int64_t r = s.left.count, in = s.right.length, out = s.left.length;
  Factors f{std::vector<float>(static_cast<std::size_t>(r * in)),
            std::vector<float>(static_cast<std::size_t>(out * r))};
  for (std::int64_t k = 0; k < r; ++k) {
    const double root = std::sqrt(s.values[static_cast<std::size_t>(k)] / by);
    for (std::int64_t i = 0; i < in; ++i)
      f.a[static_cast<std::size_t>(k * in + i)] = static_cast<float>(root * s.right[k][i]);
    for (std::int64_t i = 0; i < out; ++i)
      f.b[static_cast<std::size_t>(i * r + k)] = static_cast<float>(root * s.left[k][i]);
  }
  return f;
}

Factors by_qr(MatrixView w, std::int64_t r) {
  const Vectors q = first_of_q(w, r), rows = rows_times(w, q);
  Factors f{std::vector<float>(rows.values.begin(), rows.values.end()), std::vector<float>(q.values.size())};
  for (std::int64_t k = 0; k < r; ++k)
    for (std::int64_t i = 0; i < w.rows; ++i)
      f.b[static_cast<std::size_t>(i * r + k)] = static_cast<float>(q[k][i]);
  return f;
}

Factors orthogonal(std::int64_t r, std::int64_t in, std::int64_t out, Random random) {
  Vectors q(r, r);
  for (std::size_t i = 0; i < q.values.size(); ++i) q.values[i] = normal_at(random.with("q"), i);
  orthonormalize(q);
  // Returns (n, r): rows of normal numbers times every second vector of q, from `first` on.
  const auto mixed = [&](std::int64_t n, std::int64_t first, Random of) {
    std::vector<double> y(static_cast<std::size_t>(n * r));
    for (std::int64_t i = 0; i < n * (r / 2); ++i) {
      const double by = normal_at(of, static_cast<std::uint64_t>(i)) / 10;
      const double* row = q[2 * (i % (r / 2)) + first];
      for (std::int64_t k = 0; k < r; ++k) y[static_cast<std::size_t>(i / (r / 2) * r + k)] += by * row[k];
    }
    return y;
  };
  const std::vector<double> a = mixed(in, 0, random.with("a")), b = mixed(out, 1, random.with("b"));
  Factors f{std::vector<float>(a.size()), std::vector<float>(b.begin(), b.end())};
  for (std::int64_t i = 0; i < in; ++i)
    for (std::int64_t k = 0; k < r; ++k)
      f.a[static_cast<std::size_t>(k * in + i)] = static_cast<float>(a[static_cast<std::size_t>(i * r + k)]);
  return f;
}

}  // namespace

std::vector<float> read_whole(const WeightSource& from, const Attached& attached, std::size_t i) {
  const std::int64_t in = inputs_of(*attached.adapters[i]), out = outputs_of(*attached.adapters[i]);
  std::vector<float> values(static_cast<std::size_t>(out * in));
  from.read(weight_of(attached, i), host(values));
  if (!attached.turned[i]) return values;
  std::vector<float> w(values.size());
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t c = 0; c < in; ++c)
      w[static_cast<std::size_t>(o * in + c)] = values[static_cast<std::size_t>(c * out + o)];
  return w;
}

Starts::Starts(const Attached& attached, LoraStart start, Random random, std::vector<Factors> given)
    : attached_(attached), start_(start), random_(random), given_(std::move(given)) {
  for (std::size_t i = 0; i < attached.adapters.size(); ++i) {
    EachParameter each([&](Parameter& p) { by_parameter_[p.name] = i; });
    attached.adapters[i]->visit_down(each);
    attached.adapters[i]->visit_up(each);
  }
}

Factors Starts::make(std::size_t i, const WeightsBelow& below) const {
  const LoraAdapter& l = as_lora(*attached_.adapters[i]);
  const std::int64_t r = l.rank(), in = inputs_of(l), out = outputs_of(l);
  const Random random = random_.with(attached_.linears[i]);
  if (start_.init == LoraInit::eva || start_.init == LoraInit::lora_ga) {
    Factors f = given_.empty() ? Factors{} : given_[i];
    f.a.resize(static_cast<std::size_t>(r * in));
    f.b.resize(static_cast<std::size_t>(out * r));
    return f;
  }
  if (start_.init == LoraInit::orthogonal) return orthogonal(r, in, out, random);
  std::vector<float> w = read_whole(below.whole, attached_, i);
  if (start_.init == LoraInit::loftq) {
    const FourBitWeight* four_bit = below.weights ? below.weights->find(weight_of(attached_, i)) : nullptr;
    if (!four_bit)
      throw UserError(Exit::config,
                      str("lora.init_lora_weights: loftq corrects the error of weights in 4 bits, and ",
                          attached_.linears[i], " is not in 4 bits; set quantization.load_in_4bit=true"));
    const std::vector<float> kept = below.weights->dense(below.base, *four_bit);
    for (std::size_t e = 0; e < w.size(); ++e) w[e] -= kept[e];
  }
  const MatrixView view{w.data(), out, in};
  if (start_.init == LoraInit::olora) return by_qr(view, r);
  if (start_.init == LoraInit::loftq) return balanced(largest_singular(view, r), 1);
  return balanced(
      start_.iterations > 0 ? likely_singular(view, r, start_.iterations, random) : largest_singular(view, r),
      static_cast<double>(l.scale()));
}

const Factors& Starts::factors(std::size_t i, const WeightsBelow& below) const {
  const std::lock_guard lock(making_);
  const auto found = factors_.find(i);
  return found != factors_.end() ? found->second : factors_.emplace(i, make(i, below)).first->second;
}

Factors Starts::first_values(std::size_t i, const WeightsBelow& below) const {
  if (start_.init != LoraInit::random_b) return factors(i, below);
  const LoraAdapter& l = as_lora(*attached_.adapters[i]);
  Factors f{std::vector<float>(static_cast<std::size_t>(l.a.whole_shape().numel())),
            std::vector<float>(static_cast<std::size_t>(l.b.whole_shape().numel()))};
  initialize(l.a, start_.init, random_, host(f.a), 0);
  initialize(l.b, start_.init, random_, host(f.b), 0);
  return f;
}

const Starts::Rows& Starts::rows(std::size_t i, const WeightsBelow& below) const {
  if (const auto found = rows_.find(i); found != rows_.end()) return found->second;
  const LoraAdapter& l = as_lora(*attached_.adapters[i]);
  const std::int64_t r = l.rank(), in = inputs_of(l), out = outputs_of(l);
  const std::vector<float> w = weight_in_use(below, attached_, i);
  const bool b_is_zero =
      start_.init == LoraInit::kaiming || start_.init == LoraInit::gaussian || start_.init == LoraInit::eva;
  const Factors f = b_is_zero ? Factors{} : first_values(i, below);
  Rows rows;
  std::vector<double> row(static_cast<std::size_t>(in));
  const auto square = [&] {
    double sum = 0;
    for (const double v : row) sum += v * v;
    return sum;
  };
  for (std::int64_t o = 0; o < out; ++o) {
    std::copy_n(w.begin() + o * in, in, row.begin());
    rows.squares.push_back(static_cast<float>(square()));
    for (std::int64_t k = 0; !b_is_zero && k < r; ++k) {
      const double by = static_cast<double>(l.scale()) * f.b[static_cast<std::size_t>(o * r + k)];
      const float* a = f.a.data() + k * in;
      for (std::int64_t c = 0; c < in; ++c) row[static_cast<std::size_t>(c)] += by * a[c];
    }
    rows.norms.push_back(static_cast<float>(std::sqrt(square())));
  }
  return rows_.emplace(i, std::move(rows)).first->second;
}

const std::vector<std::int32_t>& Starts::places(const ShiraAdapter& l) const {
  const std::scoped_lock lock(making_);
  std::vector<std::int32_t>& all = places_[{outputs_of(l), inputs_of(l), l.values.shape[0]}];
  if (all.empty()) all = l.draw();
  return all;
}

void Starts::read_tokens(const WeightSource& base, const TokenTable& tokens, const Tensor& y,
                         std::int64_t first) {
  const std::int64_t width = tokens.values->whole_shape()[1], end = first + y.numel();
  for (std::int64_t at = first; at < end;) {
    const std::int64_t row = at / width, column = at % width, n = std::min(width - column, end - at);
    const std::int64_t id = tokens.ids[static_cast<std::size_t>(row)];
    base.read(tokens.stored, y.elements(at - first, n), id * width + column);
    at += n;
  }
}

void Starts::read(const WeightsBelow& below, const Parameter& p, const Tensor& y, std::int64_t first) const {
  for (const TokenTable& t : attached_.tokens)
    if (p.name == t.values->name) return read_tokens(below.base, t, y, first);
  const auto place = by_parameter_.find(p.name);
  // the parameter of an adapter of all experts
  if (place == by_parameter_.end()) return initialize(p, start_.init, random_, y, first);
  const std::size_t i = place->second;
  const auto copy = [&](const std::vector<float>& from) {
    std::memcpy(y.as<float>(), from.data() + first, static_cast<std::size_t>(y.bytes()));
  };
  LinearAdapter& l = *attached_.adapters[i];
  if (const auto* dora = dynamic_cast<const DoraAdapter*>(&l)) {
    if (p.name == dora->magnitude.name) return copy(rows(i, below).norms);
    if (p.name == dora->squares.name) return copy(rows(i, below).squares);
  }
  if (const auto* shira = dynamic_cast<const ShiraAdapter*>(&l); shira && p.name == shira->places.name) {
    std::memcpy(y.data, places(*shira).data() + first, static_cast<std::size_t>(y.bytes()));
    return;
  }
  if (start_.init <= LoraInit::gaussian) return l.initialize(p, start_.init, random_, y, first);
  const Factors& f = factors(i, below);
  copy(p.name == as_lora(l).a.name ? f.a : f.b);
}

ReducedBase::ReducedBase(std::unique_ptr<WeightSource> whole, std::shared_ptr<const Starts> starts)
    : whole_(std::move(whole)), starts_(std::move(starts)) {
  const Attached& a = starts_->attached();
  for (std::size_t i = 0; i < a.linears.size(); ++i) adapters_[weight_of(a, i)] = i;
}

void ReducedBase::read(const std::string& name, const Tensor& to, std::int64_t first) const {
  const auto found = adapters_.find(name);
  if (found == adapters_.end()) return whole_->read(name, to, first);
  const LoraAdapter& l = as_lora(*starts_->attached().adapters[found->second]);
  const Factors& f = starts_->factors(found->second, {*whole_, *whole_, nullptr, nullptr, DType::f32});
  const bool turned = starts_->attached().turned[found->second];  // then A^T B^T, (in, out), is subtracted
  const std::int64_t r = l.rank(), in = inputs_of(l), width = turned ? outputs_of(l) : in;
  const auto a = [&](std::int64_t k, std::int64_t i) { return f.a[static_cast<std::size_t>(k * in + i)]; };
  const auto b = [&](std::int64_t o, std::int64_t k) { return f.b[static_cast<std::size_t>(o * r + k)]; };
  std::vector<float> values(static_cast<std::size_t>(to.numel()));
  whole_->read(name, host(values), first);
  const double scale = static_cast<double>(l.scale());
  for (std::int64_t e = 0; e < to.numel();) {
    const std::int64_t row = (first + e) / width, column = (first + e) % width,
                       n = std::min(width - column, to.numel() - e);
    std::vector<double> taken(static_cast<std::size_t>(n));
    for (std::int64_t k = 0; k < r; ++k) {
      const double by = scale * (turned ? a(k, row) : b(row, k));
      for (std::int64_t c = 0; c < n; ++c)
        taken[static_cast<std::size_t>(c)] += by * (turned ? b(column + c, k) : a(k, column + c));
    }
    for (std::int64_t c = 0; c < n; ++c)
      values[static_cast<std::size_t>(e + c)] -= static_cast<float>(taken[static_cast<std::size_t>(c)]);
    e += n;
  }
  convert(to.data, to.dtype, values.data(), DType::f32, to.numel());
}

StoredBytes ReducedBase::find_stored(const std::string& name, DType type, std::int64_t elements) const {
  return adapters_.contains(name) ? StoredBytes{} : whole_->find_stored(name, type, elements);
}

void initialize(const Parameter& p, LoraInit init, Random random, Tensor y, std::int64_t first) {
  const bool is_a = p.name.ends_with(".lora_A.weight"),
             of_embedding = p.name.ends_with(".lora_embedding_B") || p.name.ends_with(".lora_embedding_A");
  const Random family = random.with(p.name);
  const double fan_in = static_cast<double>(p.whole_shape()[1]);
  const double bound = 1 / std::sqrt(fan_in);
  const double deviation = p.deviation.value_or(1 / static_cast<double>(p.whole_shape()[0]));  // 1 / r
  float* out = y.as<float>();
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const auto index = static_cast<std::uint64_t>(first + i);
    double v = 0;
    if (of_embedding)
      v = init == LoraInit::random_b || p.name.back() == 'B' ? normal_at(family, index) : 0;
    else if (is_a && init == LoraInit::gaussian)
      v = deviation * normal_at(family, index);
    else if (is_a || init == LoraInit::random_b)
      v = bound * uniform_at(family, index);
    out[i] = static_cast<float>(v);
  }
}

}  // namespace ft::lora
