// Initialization of adapters: base and adapter together equal the original base, whatever part the adapter
// takes; and the final adapter is converted to a plain LoRA.
#include "lora/starts/starts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/files/safetensors/safetensors_write.h"
#include "lora/convert.h"
#include "lora/dora.h"
#include "lora/peft.h"
#include "lora/starts/decompose.h"
#include "tests/engine/files/temp_folder.h"

namespace ft::lora {
namespace {

constexpr std::int64_t kOutputs = 11, kInputs = 9;
const std::string kLinear = "model.q_proj";

// Transposes (rows, cols) to (cols, rows).
std::vector<float> turned(const std::vector<float>& x, std::int64_t rows, std::int64_t cols) {
  std::vector<float> y(x.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) y[std::size_t(j * rows + i)] = x[std::size_t(i * cols + j)];
  return y;
}

// A source of one random weight (out, in), optionally stored with the inputs first.
class OneWeight final : public WeightSource {
 public:
  explicit OneWeight(bool inputs_first) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(normal_at(Random{1}.with("w"), i));
    if (inputs_first) values = turned(values, kOutputs, kInputs);
  }
  std::vector<std::string> names() const override { return {kLinear + ".weight"}; }
  bool has(const std::string& name) const override { return name == kLinear + ".weight"; }
  WeightInfo info(const std::string&) const override {
    return {"file", StoredType::f32, {kOutputs, kInputs}};
  }
  void read(const std::string&, const Tensor& to, std::int64_t first) const override {
    std::copy_n(values.begin() + first, to.numel(), to.as<float>());
  }
  StoredBytes find_stored(const std::string&, DType, std::int64_t) const override { return {}; }

  std::vector<float> values = std::vector<float>(kOutputs * kInputs);
};

// Returns n elements that `read` reads in two pieces.
template <class Read>
std::vector<float> in_pieces(std::int64_t n, Read read) {
  std::vector<float> all(static_cast<std::size_t>(n));
  const auto part = [&](std::int64_t first, std::int64_t count) {
    if (count > 0) read(Tensor(reinterpret_cast<std::byte*>(all.data() + first), DType::f32, {count}), first);
  };
  part(0, n / 3);
  part(n / 3, n - n / 3);
  return all;
}

struct Start {
  std::unique_ptr<LoraAdapter> adapter;
  Attached attached;
  std::shared_ptr<const Starts> starts;
  std::unique_ptr<ReducedBase> base;
  const OneWeight* whole = nullptr;

  Start(LoraStart start, std::int64_t r, float scale, bool dora = false, bool inputs_first = false) {
    if (dora)
      adapter =
          std::make_unique<DoraAdapter>(kPeftPrefix + kLinear, kInputs, kOutputs, r, scale, 0.0f, DType::f32);
    else
      adapter =
          std::make_unique<LoraAdapter>(kPeftPrefix + kLinear, kInputs, kOutputs, r, scale, 0.0f, DType::f32);
    attached.linears = {kLinear};
    attached.turned = {inputs_first};
    attached.adapters = {adapter.get()};
    starts = std::make_shared<const Starts>(attached, start, Random{5});
    auto own = std::make_unique<OneWeight>(inputs_first);
    whole = own.get();
    base = std::make_unique<ReducedBase>(std::move(own), starts);
  }
  WeightsBelow below() const {
    return {*whole, starts->changes_base() ? static_cast<const WeightSource&>(*base) : *whole, nullptr,
            nullptr, DType::f32};
  }
  std::vector<float> read(const Parameter& p) const {
    return in_pieces(p.shape.numel(),
                     [&](const Tensor& y, std::int64_t first) { starts->read(below(), p, y, first); });
  }
  // Returns scale B A.
  std::vector<double> product() const {
    const auto a = read(adapter->a), b = read(adapter->b);
    const std::int64_t r = adapter->rank();
    std::vector<double> sum(kOutputs * kInputs);
    for (std::int64_t o = 0; o < kOutputs; ++o)
      for (std::int64_t i = 0; i < kInputs; ++i)
        for (std::int64_t k = 0; k < r; ++k)
          sum[std::size_t(o * kInputs + i)] +=
              double(adapter->scale()) * b[std::size_t(o * r + k)] * a[std::size_t(k * kInputs + i)];
    return sum;
  }
  std::vector<float> reduced() const {
    return in_pieces(kOutputs * kInputs,
                     [&](const Tensor& y, std::int64_t first) { base->read(kLinear + ".weight", y, first); });
  }
};

TEST(Starts, BaseAndAdapterAddUpToTheWeight) {
  for (const LoraStart start :
       {LoraStart{LoraInit::pissa}, LoraStart{LoraInit::pissa, 3}, LoraStart{LoraInit::olora}}) {
    const Start s(start, 3, 1.7f);
    const auto left = s.reduced();
    const auto taken = s.product();
    double moved = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      EXPECT_NEAR(double(left[i]) + taken[i], double(s.whole->values[i]), 1e-5);
      moved += taken[i] * taken[i];
    }
    EXPECT_GT(moved, 1);
  }
}

// PiSSA takes the best approximation of W with this rank, whatever alpha is.
TEST(Starts, PissaSubtractsTheSamePartAtEveryScale) {
  const auto one = Start({LoraInit::pissa}, 2, 1).product(), three = Start({LoraInit::pissa}, 2, 3).product();
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], three[i], 1e-5);
}

TEST(Starts, AreEqualForBothStorageOrders) {
  for (const LoraStart start :
       {LoraStart{LoraInit::kaiming}, LoraStart{LoraInit::pissa}, LoraStart{LoraInit::pissa, 3}}) {
    const Start usual(start, 3, 1.7f, true), other(start, 3, 1.7f, true, true);
    EXPECT_EQ(other.reduced(), turned(usual.reduced(), kOutputs, kInputs));
    EXPECT_EQ(other.product(), usual.product());
    const auto magnitudes = [](const Start& s) {
      return s.read(dynamic_cast<const DoraAdapter*>(s.adapter.get())->magnitude);
    };
    EXPECT_EQ(magnitudes(other), magnitudes(usual));
  }
}

TEST(Starts, OrthogonalFactorsHaveNoProduct) {
  const Start s({LoraInit::orthogonal}, 6, 2);
  for (const double v : s.product()) EXPECT_NEAR(v, 0, 1e-7);
  for (const Parameter* p : {&s.adapter->a, &s.adapter->b}) {
    double squares = 0;
    for (const float v : s.read(*p)) squares += double(v) * v;
    EXPECT_GT(squares / double(p->shape.numel()), 1e-3);
  }
}

// Magnitudes are the norms of the rows of the Linear's initial weight, which is W.
TEST(Starts, MagnitudesAreTheNormsOfRows) {
  for (const LoraInit init : {LoraInit::kaiming, LoraInit::pissa, LoraInit::olora, LoraInit::random_b}) {
    const Start s({init}, 3, 0.5f, true);
    const auto* dora = dynamic_cast<const DoraAdapter*>(s.adapter.get());
    const auto m = s.read(dora->magnitude), squares = s.read(dora->squares);
    const auto below = s.starts->changes_base() ? s.reduced() : s.whole->values;
    const auto added = init == LoraInit::kaiming ? std::vector<double>(below.size()) : s.product();
    for (std::int64_t o = 0; o < kOutputs; ++o) {
      double want = 0, own = 0;
      for (std::int64_t i = 0; i < kInputs; ++i) {
        const auto at = std::size_t(o * kInputs + i);
        own += double(below[at]) * below[at];
        want += (below[at] + added[at]) * (below[at] + added[at]);
      }
      EXPECT_NEAR(squares[std::size_t(o)], own, 1e-5 * own);
      EXPECT_NEAR(m[std::size_t(o)], std::sqrt(want), 1e-5 * std::sqrt(want)) << name_of(init);
    }
  }
}

// s [B, -B0] [A; A0] = s B A - s B0 A0, and the configuration keeps the scale.
TEST(MakePlain, DoublesTheRank) {
  for (const bool rslora : {false, true}) {
    LoraConfig c;
    c.r = 2;
    c.lora_alpha = 5;
    c.use_rslora = rslora;
    c.target_modules = std::vector<std::string>{"q_proj"};
    c.init_lora_weights = LoraInit::pissa;
    c.rank_pattern = {{"q_proj", 3}};
    c.alpha_pattern = {{"q_proj", 7}};
    const LoraConfig plain = plain_config(c);
    const auto scale = [](double alpha, double r, bool rs) { return alpha / (rs ? std::sqrt(r) : r); };
    EXPECT_NEAR(scale(plain.lora_alpha, double(plain.r), rslora), scale(5, 2, rslora), 1e-12);
    EXPECT_NEAR(scale(plain.alpha_pattern[0].second, double(plain.rank_pattern[0].second), rslora),
                scale(7, 3, rslora), 1e-12);
    EXPECT_EQ(plain.init_lora_weights, LoraInitWord(LoraInit::kaiming));

    const Start s({LoraInit::pissa}, 3, float(scale(7, 3, rslora)));
    const test::TempFolder folder;
    create_adapter(folder.path(), c, s.attached, "base", std::nullopt);
    write_safetensors(folder / "adapter_model.safetensors",
                      {{s.adapter->a.name, DType::f32, s.adapter->a.shape},
                       {s.adapter->b.name, DType::f32, s.adapter->b.shape}},
                      [&](const TensorSpec& t) {
                        static std::vector<float> values;
                        values.assign(std::size_t(t.shape.numel()), 0.25f);
                        return Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, t.shape);
                      });
    make_plain(
        folder.path(), c, s.attached,
        [&](std::size_t i) -> const Factors& { return s.starts->factors(i, s.below()); }, "base");
    const SafetensorsFile file(folder / "adapter_model.safetensors");
    std::vector<float> a(6 * kInputs), b(kOutputs * 6);
    file.read(*file.find(s.adapter->a.name),
              Tensor(reinterpret_cast<std::byte*>(a.data()), DType::f32, {6 * kInputs}));
    file.read(*file.find(s.adapter->b.name),
              Tensor(reinterpret_cast<std::byte*>(b.data()), DType::f32, {kOutputs * 6}));
    const auto first = s.product();
    for (std::int64_t o = 0; o < kOutputs; ++o)
      for (std::int64_t i = 0; i < kInputs; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < 6; ++k)
          sum += double(b[std::size_t(o * 6 + k)]) * a[std::size_t(k * kInputs + i)];
        const double want = double(s.adapter->scale()) * 3 * 0.0625 - first[std::size_t(o * kInputs + i)];
        EXPECT_NEAR(double(s.adapter->scale()) * sum, want, 1e-5);
      }
    EXPECT_EQ(AdapterFolder(folder.path()).config().r, 4);
  }
}

}  // namespace
}  // namespace ft::lora
