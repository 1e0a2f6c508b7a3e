#include "lora/shira.h"

#include <algorithm>
#include <random>
#include <unordered_map>

#include "engine/layers/sum.h"
#include "lora/kinds.h"
#include "lora/starts/decompose.h"

namespace ft::lora {
namespace {

constexpr std::int64_t kTorchSeed = 67280421310721;  // of a torch.Generator that is given none

// Returns the first `count` numbers of a random permutation of 0 to n - 1, by Fisher and Yates' shuffle. They
// are those of torch.randperm(n) on the CPU if n is below 2^32 / 20; torch shuffles more in another way.
std::vector<std::int64_t> first_of_permutation(std::int64_t n, std::int64_t count, std::int64_t seed) {
  constexpr std::int64_t kMost = 0xffffffffLL / 20;
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  const auto draw = [&]() -> std::uint64_t {
    const std::uint64_t word = random();
    return n < kMost ? word : word << 32 | random();
  };
  std::unordered_map<std::int64_t, std::int64_t> moved;  // the numbers that are not in their own place
  const auto at = [&](std::int64_t place) {
    const auto found = moved.find(place);
    return found == moved.end() ? place : found->second;
  };
  std::vector<std::int64_t> first;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t j = i + static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(n - i));
    first.push_back(at(j));
    moved[j] = at(i);
  }
  return first;
}

}  // namespace

ShiraAdapter::ShiraAdapter(const AdapterForm& f, std::optional<std::int64_t> seed)
    : DenseAdapter(f.out, f.in),
      values{.name = f.module + ".shira_weight",
             .shape = {f.rank * (f.in + f.out)},
             .dtype = f.dtype,
             .trainable = true},
      places{.name = f.module + ".shira_indices",
             .shape = {2, f.rank * (f.in + f.out)},
             .dtype = DType::i32,
             .stands_for = 0},
      seed_(seed) {}

void ShiraAdapter::visit_up(Visitor& v) {
  v.parameter(values);
  v.parameter(places);
}

void ShiraAdapter::cut(Cut, TensorRank, const Parts&) {
  throw UserError(
      Exit::config,
      "lora.peft_type: shira is not with distributed.tensor_parallel_size yet; leave one of the two out");
}

Tensor ShiraAdapter::matrix(Ctx& c, const Weight&) const {
  const Tensor v = c.temporary(weight_shape()[0], weight_shape()[1]);
  c.ops.run(op::Fill{v, 0});
  c.ops.run(op::ScatterElements{.y = v, .x = values.value, .at = places.value});
  return v;
}

void ShiraAdapter::add_grad(Ctx& c, const Weight&, Tensor dv) const {
  c.ops.run(op::ScatterElementsGrad{.dx = values.grad, .dy = dv, .at = places.value});
}

void ShiraAdapter::drop(Ctx&, Tensor, Tensor) const { throw InternalError("SHiRA has no dropout"); }

std::vector<std::int32_t> ShiraAdapter::draw() const {
  const std::int64_t in = weight_shape()[1];
  std::vector<std::int64_t> drawn =
      first_of_permutation(weight_shape().numel(), count(), seed_.value_or(kTorchSeed));
  std::ranges::sort(drawn);
  std::vector<std::int32_t> all;
  for (const std::int64_t place : drawn) all.push_back(static_cast<std::int32_t>(place / in));
  for (const std::int64_t place : drawn) all.push_back(static_cast<std::int32_t>(place % in));
  return all;
}

std::string ShiraAdapter::fault_of(const Tensor& fixed) const {
  const std::int64_t out = weight_shape()[0], in = weight_shape()[1];
  const auto *row = fixed.as<std::int32_t>(), *column = row + count();
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < count(); ++i) {
    if (row[i] < 0 || row[i] >= out || column[i] < 0 || column[i] >= in)
      return str("place ", i, " is row ", row[i], " and column ", column[i], " of ", out, " x ", in);
    const std::int64_t place = row[i] * in + column[i];
    if (place <= last) return str("place ", i, " is not behind the one before it");
    last = place;
  }
  return "";
}

void ShiraAdapter::initialize(const Parameter& p, LoraInit init, Random random, Tensor y,
                              std::int64_t first) const {
  const Random family = random.with(p.name);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.as<float>()[i] = init == LoraInit::random_b
                           ? static_cast<float>(normal_at(family, static_cast<std::uint64_t>(first + i)))
                           : 0;
}

void ShiraAdapter::merge(Ops&, const ParameterValues& read, Tensor y, bool turned) const {
  require(!turned, "SHiRA of a weight that is stored inputs first");
  const Tensor v = read(values), at = read(places);
  const auto *row = at.as<std::int32_t>(), *column = row + count();
  for (std::int64_t i = 0; i < count(); ++i)
    y.as<float>()[row[i] * weight_shape()[1] + column[i]] += v.as<float>()[i];
}

namespace {

constexpr PeftKey kShiraKeys[] = {{"fan_in_fan_out", nullptr, "false"},
                                  {"init_weights", "init_lora_weights"},
                                  {"mask_type", nullptr, "\"random\""},
                                  {"modules_to_save", "modules_to_save"},
                                  {"r", "r"},
                                  {"random_seed", "random_seed"},
                                  {"target_modules", "target_modules"}};
constexpr LoraInit kShiraStarts[] = {LoraInit::kaiming, LoraInit::random_b};

std::unique_ptr<LinearAdapter> make_shira(const LoraConfig& c, const AdapterForm& form) {
  return std::make_unique<ShiraAdapter>(form, c.random_seed);
}

}  // namespace

constexpr AdapterKind kinds::kShira{
    .name = "shira",
    .peft_type = "SHIRA",
    .title = "SHiRA",
    .rank = 32,
    .keys = kShiraKeys,
    .starts = kShiraStarts,
    .most_rank = [](std::int64_t in, std::int64_t out) { return in * out / (in + out); },
    .inputs_first = false,
    .by_request = false,
    .make = make_shira};

}  // namespace ft::lora
